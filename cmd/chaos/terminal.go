package main

import (
	"io"
	"os"

	"github.com/vbauerster/mpb/v8/cwriter"
)

// terminal is the output of a command. Pipes, files and NO_COLOR get no colours.
type terminal struct {
	io.Writer
	live   bool // whether it can show a changing line
	colour bool
}

func newTerminal(w io.Writer) *terminal {
	t := &terminal{Writer: w}
	if f, ok := w.(*os.File); ok && cwriter.IsTerminal(int(f.Fd())) {
		t.live = os.Getenv("TERM") != "dumb"
		t.colour = t.live && os.Getenv("NO_COLOR") == ""
	}
	return t
}

func (t *terminal) colourText(code, s string) string {
	if !t.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t *terminal) red(s string) string    { return t.colourText("31;1", s) }
func (t *terminal) yellow(s string) string { return t.colourText("33", s) }
func (t *terminal) green(s string) string  { return t.colourText("32", s) }
func (t *terminal) bold(s string) string   { return t.colourText("1", s) }
func (t *terminal) dim(s string) string    { return t.colourText("2", s) }

// colourVerdict colours a verdict or a similar word.
func (t *terminal) colourVerdict(v string) string {
	switch v {
	case "pass", "killed", "ok":
		return t.green(v)
	case "inconclusive", "stopped", "survived", "found":
		return t.yellow(v)
	default:
		return t.red(v)
	}
}
