//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// hostileHistory is a hostile file for `chaos check`.
type hostileHistory struct {
	what string
	text []byte
}

// patienceWithFiles is how long `chaos check` may read before the attack asks it to stop.
const patienceWithFiles = 4 * time.Second

func (l *lab) hostileHistories() []hostileHistory {
	const head = `{"schema":1,"scenario":"","profile":"hardened","seed":1,"mutant":"","workers":{}}` + "\n"
	started := func(at string) string { return `{"at_ns":` + at + `,"kind":"process_started","process":"a"}` + "\n" }
	var open bytes.Buffer
	open.WriteString(head)
	for i := range 200_000 {
		fmt.Fprintf(&open, `{"at_ns":%d,"step":%d,"kind":"created","execution":%d,"chain":%d,"to":"requested","by":"api","action":"a.b"}`+"\n", i, i, i+1, i+1)
	}
	return []hostileHistory{
		{"an event at the end of time", text(head, started("9223372036854775807"))},
		{"the end of time, then the beginning", text(head, started("9223372036854775807"), started("-9223372036854775808"), started("0"))},
		{"an execution created at the end of time", text(head, `{"at_ns":1,"kind":"created","execution":1,"chain":1,"to":"requested","by":"api"}`+"\n", started("9223372036854775807"))},
		{"200,000 executions that never end", open.Bytes()},
		{"a line of 60 MB", text(head, `{"at_ns":1,"kind":"process_started","process":"`, strings.Repeat("p", 60<<20), `"}`)},
		{"nested 5 million deep", text(head, `{"at_ns":1,"kind":"x","process":`, strings.Repeat("[", 5_000_000))},
		{"numbers out of every range", text(head, `{"at_ns":1e999,"step":-1,"kind":"created","execution":-9223372036854775808,"count":99999999999999999999}`)},
		{"a header of 20 MB", text(`{"schema":1,"scenario":"`, strings.Repeat("s", 20<<20), `"}`)},
		{"a time scale without end", text(`{"schema":1,"scenario":"ttl-race","profile":"hardened","seed":1,"time_scale":1e308}`+"\n", started("1"))},
	}
}

// histories has `chaos check` judge hostile files.
func histories(ctx context.Context, l *lab, r *result) error {
	path := filepath.Join(l.dir, "history.jsonl")
	for _, h := range l.hostileHistories() {
		if err := os.WriteFile(path, h.text, 0o600); err != nil {
			return err
		}
		took, obeyed, peak, _, err := l.check(ctx, path)
		if err != nil {
			return err
		}
		if took > patienceWithFiles {
			r.duration(h.what+": obeys SIGTERM after", obeyed, checkSignal)
		} else {
			r.tell(h.what+": ends after", "%s", shownDuration(took))
		}
		r.memory(h.what+": memory beyond the file", max(0, peak-int64(len(h.text))), checkMemory)
	}
	return l.headersThatName(ctx, r, path)
}

// headersThatName judges histories that name files as their scenario, and that write to the
// terminal.
func (l *lab) headersThatName(ctx context.Context, r *result, path string) error {
	hidden := filepath.Join(l.dir, "hidden.yaml")
	mark := secretPrefix + word()
	if err := os.WriteFile(hidden, []byte(mark+": x\n"+mark+"\n"), 0o600); err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(here, hidden)
	if err != nil {
		return err
	}
	shown := 0
	for _, name := range []string{hidden, relative, "./" + relative, "/etc/passwd"} {
		line := fmt.Sprintf(`{"schema":1,"scenario":%q,"profile":"hardened","seed":1}`+"\n"+`{"at_ns":1,"kind":"process_started","process":"a"}`, name)
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			return err
		}
		_, _, _, said, err := l.check(ctx, path)
		if err != nil {
			return err
		}
		if strings.Contains(said, mark) || strings.Contains(said, "root:x") {
			shown++
		}
	}
	r.count("headers that name a file: files whose text is shown, of 4", shown, 0)
	controls := 0
	for _, line := range []string{
		`{"schema":1,"scenario":"\u001b]0;owned\u0007\u001b[2J","profile":"hardened","seed":1}`,
		`{"schema":1,"scenario":"","profile":"\u001b[2J","seed":1}`,
		`{"schema":1,"scenario":"","profile":"hardened","seed":1}` + "\n" + `{"at_ns":1,"kind":"\u001b[2J","process":"a"}`,
		`{"schema":1,"scenario":"","profile":"hardened","seed":1}` + "\n" + `{"at_ns":1,"kind":"created","execution":1,"chain":1,"to":"requested","by":"api","action":"\u001b[2J","key":"\u001b[2J","text":"\u001b[2J"}` + "\n" +
			`{"at_ns":2,"kind":"transition","execution":1,"chain":1,"from":"running","to":"completed","by":"worker","process":"\u001b[2J","text":"\u001b[2J"}`,
	} {
		if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
			return err
		}
		_, _, _, said, err := l.check(ctx, path)
		if err != nil {
			return err
		}
		if strings.ContainsAny(said, "\x1b\x07") {
			controls++
		}
	}
	r.count("histories that write control characters to the terminal, of 4", controls, 0)
	return nil
}

// check runs `chaos check` on a file. If it takes too long, it is asked to stop, and killed if it
// does not.
func (l *lab) check(ctx context.Context, path string) (took, obeyed time.Duration, peak int64, said string, err error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(l.bin, "chaos"), "check", path)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, 0, "", err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its verdict does not matter
		close(done)
	}()
	over := func(within time.Duration) bool {
		return until(ctx, within, func() bool {
			peak = max(peak, memoryOf(cmd.Process.Pid, "VmHWM"))
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
	}
	if !over(patienceWithFiles) {
		asked := time.Now()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		obeyed = -1
		if over(4 * checkSignal) {
			obeyed = time.Since(asked)
		}
		_ = cmd.Process.Kill()
		<-done
		if obeyed < 0 {
			obeyed = 4 * checkSignal
		}
		return time.Since(began), obeyed, peak, out.String(), ctx.Err()
	}
	return min(time.Since(began), patienceWithFiles), 0, peak, out.String(), ctx.Err()
}
