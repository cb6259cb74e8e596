package shard

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"handoff/core/config/yamlfile"
)

// Schema is the version of the file. Only files of the same commit are combined, so no older
// version is ever read.
const Schema = 1

// Bounds on a file. A reader forgets each line before the next, so the longest line bounds its
// memory.
const (
	// MaxLine is the longest line, in bytes.
	MaxLine = 4 << 20
	// MaxParts is the largest number of commas in a line, because a value between two of them may
	// need a hundred times more memory than its text.
	MaxParts = 250_000
	// MaxLines is the largest number of items in a file.
	MaxLines = 100_000
)

// Header is the first line of a file: which share of which job it is.
type Header struct {
	Schema int `json:"schema"`
	// Kind is the kind of the items.
	Kind  string `json:"kind"`
	Share Share  `json:"share"`
	// Commit and Go are the versions of the program that ran the share. Commit is empty if the
	// program does not know it.
	Commit string `json:"commit"`
	Go     string `json:"go"`
	// Digest covers everything that was read, such as scenarios.
	Digest string `json:"digest"`
	// Seeds is how many runs of each target all shares have together; 0 if there are no seeds.
	Seeds int `json:"seeds"`
	// Asked has everything else that determines the result, by its flag.
	Asked map[string]string `json:"asked"`
}

// end is the last line of a file. A file without it was cut off.
type end struct {
	Lines int `json:"lines"`
	// SHA256 covers the lines before this one.
	SHA256 string `json:"sha256"`
	// Aside is data that may differ between two files of the same share, such as how long it took.
	Aside json.RawMessage `json:"aside,omitempty"`
}

type lastLine struct {
	End *end `json:"end"`
}

const endPrefix = `{"end":`

// Write writes a file: the header, one JSON object a line for each item, and a last line that
// confirms that the file is complete. Equal headers and items give equal bytes up to the last line,
// which contains aside.
func Write(w io.Writer, h Header, items []any, aside any) error {
	h.Schema = Schema
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	for i, item := range slices.Concat([]any{h}, items) {
		line, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("writing line %d of a share: %w", i+1, err)
		}
		if len(line) > MaxLine {
			return fmt.Errorf("writing line %d of a share: it has %d bytes, and at most %d are read", i+1, len(line), MaxLine)
		}
		if n := bytes.Count(line, []byte{','}); n > MaxParts {
			return fmt.Errorf("writing line %d of a share: it has %d commas, and at most %d are read", i+1, n, MaxParts)
		}
		if _, err := both.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("writing line %d of a share: %w", i+1, err)
		}
	}
	beside, err := json.Marshal(aside)
	if err == nil {
		err = json.NewEncoder(w).Encode(lastLine{&end{len(items) + 1, hex.EncodeToString(sum.Sum(nil)), beside}})
	}
	if err != nil {
		return fmt.Errorf("writing the end of a share: %w", err)
	}
	return nil
}

// Reader reads a file line by line. It refuses, with file, line and column, everything that Write
// does not write: longer or more lines, unknown fields, a missing end, and lines that were changed
// afterwards.
type Reader struct {
	file   string
	lines  *bufio.Scanner
	line   int
	sum    hash.Hash
	header Header
	end    end
}

// NewReader reads the header. file is only the file's name in errors.
func NewReader(file string, r io.Reader) (*Reader, error) {
	f := &Reader{file: file, lines: bufio.NewScanner(r), sum: sha256.New()}
	f.lines.Buffer(nil, MaxLine+1) // the scanner counts the end of the line too
	text, err := f.next()
	if errors.Is(err, io.EOF) {
		return nil, f.Refuse(1, "the file is empty; chaos run --shard writes it")
	}
	if err != nil {
		return nil, err
	}
	// Another schema may have other fields.
	var schema struct {
		Schema int `json:"schema"`
	}
	if json.Unmarshal(text, &schema) == nil && schema.Schema != Schema {
		return nil, f.Refuse(1, "the file has schema %d, this program reads %d: merge with the program that ran the shares", schema.Schema, Schema)
	}
	if err := f.decode(text, &f.header); err != nil {
		return nil, err
	}
	if f.header.Share.Whole() {
		return nil, f.Refuse(1, "share: is missing; it says which part of how many this is, as in \"2/4\"")
	}
	return f, nil
}

// Header is the first line.
func (f *Reader) Header() Header { return f.header }

// Next reads the next item into the value that into points to. After the last item it returns
// io.EOF, which confirms that the file is complete and unchanged.
func (f *Reader) Next(into any) error {
	sum := f.sum.Sum(nil)
	text, err := f.next()
	if errors.Is(err, io.EOF) {
		return f.Refuse(1, "the file ends here, without its last line: it was cut off; copy it again, or run share %s again", f.header.Share)
	}
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(text, []byte(endPrefix)) {
		if f.line > MaxLines+1 {
			return f.Refuse(1, "more than %d lines; no share has as many", MaxLines)
		}
		return f.decode(text, into)
	}
	last := lastLine{&f.end}
	if err := f.decode(text, &last); err != nil {
		return err
	}
	switch {
	case last.End == nil || f.end.Lines != f.line-1:
		return f.Refuse(1, "the end counts %d lines, but there are %d: lines were lost or added after the file was written", f.end.Lines, f.line-1)
	case f.end.SHA256 != hex.EncodeToString(sum):
		return f.Refuse(1, "the lines above are not those that were written: their SHA-256 is %x, and not %s", sum, clip(f.end.SHA256))
	}
	if _, err := f.next(); !errors.Is(err, io.EOF) {
		return cmp.Or(err, f.Refuse(1, "text follows the end of the share: remove it, or copy the file again"))
	}
	return io.EOF
}

// Aside reads the data beside the items, after Next has returned io.EOF.
func (f *Reader) Aside(into any) error {
	if err := json.Unmarshal(f.end.Aside, into); err != nil {
		return f.Refuse(1, "aside: %v", err)
	}
	return nil
}

// Sum identifies the content of the file, except aside, after Next has returned io.EOF.
func (f *Reader) Sum() string { return f.end.SHA256 }

// Refuse is an error about the last line that was read.
func (f *Reader) Refuse(column int, format string, args ...any) error {
	return yamlfile.Problem{File: f.file, Line: max(1, f.line), Column: column, Message: fmt.Sprintf(format, args...)}
}

// next is the next line, which is not empty.
func (f *Reader) next() ([]byte, error) {
	if !f.lines.Scan() {
		f.line++
		switch err := f.lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return nil, f.Refuse(MaxLine+1, "the line has more than %d bytes; no share has longer ones", MaxLine)
		case err != nil:
			return nil, f.Refuse(1, "reading the line: %v", err)
		}
		f.line-- // the end is after the last line, and is reported there
		return nil, io.EOF
	}
	f.line++
	text := f.lines.Bytes()
	f.sum.Write(text)
	f.sum.Write([]byte{'\n'})
	return text, nil
}

func (f *Reader) decode(text []byte, into any) error {
	column := func(offset int64) int { return utf8.RuneCount(text[:min(max(offset, 0), int64(len(text)))]) + 1 }
	if start := len(text) - len(bytes.TrimLeft(text, " \t\r")); start == len(text) || text[start] != '{' {
		return f.Refuse(start+1, "a line is a JSON object and begins with {, this one with %q", clip(string(text[start:])))
	}
	if n := bytes.Count(text, []byte{','}); n > MaxParts {
		return f.Refuse(1, "the line has %d commas; no share has more than %d in one", n, MaxParts)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil && d.More():
		return f.Refuse(column(d.InputOffset()), "one object a line, and here is more")
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return f.Refuse(column(int64(len(text))), "the line ends inside of its object: the file was cut off; copy it again, or run the share again")
	case errors.As(err, &syntax):
		return f.Refuse(column(syntax.Offset-1), "%s", clip(err.Error()))
	case errors.As(err, &kind):
		return f.Refuse(column(kind.Offset-1), "%s can't be a %s", clip(kind.Field), clip(kind.Value))
	default:
		return f.Refuse(1, "%s", clip(strings.TrimPrefix(err.Error(), "json: ")))
	}
}

// clip shortens a quotation from a file for an error.
func clip(s string) string {
	const most = 120
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
