//go:build unix

package docs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/chaos/servers"
	"handoff/core/host/without"
	"handoff/core/testenv"
	"handoff/docs"
)

// The first line of a block on a page defines how the test runs its commands:
//
//	```sh set up            brings the system into the state that the page describes
//	```sh meanwhile         the same, but runs alongside all other blocks until Ctrl-C
//	```sh run: WORD, WORD   a command to read; its output must eventually contain all these words
//	```sh do                a step of the page, run once at its place between the commands to read
//	```sh undo              undoes the effects of `set up` and `meanwhile`
//	```sh only: REASON      not run by the test
//
// `set up` and `meanwhile` are run first, then `run` and `do`, then `undo`, each group in the page's order.

// block is a block of commands on a page.
type block struct {
	kind, text string
	words      []string
	line       int
}

var (
	fence = regexp.MustCompile("(?m)^```sh ?(.*)\n((?:.*\n)*?)```$")
	kinds = []string{"set up", "meanwhile", "run", "do", "undo", "only"}
)

// pageBlocks returns the command blocks of a page. Every block must have a kind, so that all commands are
// tried.
func pageBlocks(t *testing.T, page, text string) (all []block) {
	t.Helper()
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		kind, rest, _ := strings.Cut(text[m[2]:m[3]], ":")
		b := block{kind: kind, text: text[m[4]:m[5]], line: 1 + strings.Count(text[:m[0]], "\n")}
		for word := range strings.SplitSeq(rest, ",") {
			if word = strings.TrimSpace(word); word != "" {
				b.words = append(b.words, word)
			}
		}
		if needs := kind == "run" || kind == "only"; !slices.Contains(kinds, kind) || needs != (len(b.words) > 0) {
			t.Errorf("%s:%d: ```sh %s: a block is one of: set up; meanwhile; run: WORD, WORD; do; undo; only: REASON", page, b.line, text[m[2]:m[3]])
		}
		all = append(all, b)
	}
	return all
}

// system is a running `chaos up`, with a directory in which the pages' commands run as they do in the
// repository.
type system struct {
	t   *testing.T
	dir string
	env string
	up  *exec.Cmd
	// left names the page that did not restore the system; empty for none.
	left string
}

// startSystem builds the binaries and starts the system.
func startSystem(t *testing.T, args ...string) *system {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the whole system")
	}
	servers.Require(t, servers.EnsureInstalled(t.Context(), os.Stderr))
	servers.Require(t, servers.Available(t.Context(), servers.Options{Postgres: true, RabbitMQ: true, Management: true, PrivateOnly: true}))
	for tool, of := range map[string]string{"rabbitmqadmin": without.RabbitMQ, "psql": without.Postgres, "curl": without.RabbitMQ} {
		if _, err := exec.LookPath(tool); err != nil {
			without.Need(t, of, fmt.Errorf("the commands of the pages need %s: %w", tool, err))
		}
	}
	s := &system{t: t, dir: t.TempDir()}
	bin, err := docs.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	for name, target := range map[string]string{"bin": bin, "docs": here} {
		err = errors.Join(err, os.Symlink(target, filepath.Join(s.dir, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.startUp(args)
	return s
}

var readyLine = regexp.MustCompile(`(?m)^  shell +\. (\S+)`)

// patience limits every wait for an expected event, and suffices on a busy machine.
var patience = testenv.Patience()

func (s *system) startUp(args []string) {
	s.t.Helper()
	said, err := os.Create(filepath.Join(s.dir, "up.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer said.Close()
	s.up = exec.Command("bin/chaos", append([]string{"up"}, args...)...)
	s.up.Dir, s.up.Stdout, s.up.Stderr = s.dir, said, said
	if err := s.up.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = s.up.Wait() // the output shows the reason
		close(ended)
	}()
	s.t.Cleanup(func() {
		_ = s.up.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(patience):
			s.t.Errorf("chaos up did not end within %v of Ctrl-C", patience)
			_ = s.up.Process.Kill()
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(said.Name())
		if m := readyLine.FindSubmatch(text); m != nil && bytes.Contains(text, []byte("Ctrl-C takes")) {
			s.env = string(m[1])
			return
		}
		select {
		case <-ended:
			s.t.Fatalf("chaos up %v ended: %v\n%s", args, s.up.ProcessState, text)
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("chaos up %v was not ready within %v:\n%s", args, patience, text)
		}
	}
}

// newCommand returns a shell command that sources the system's env file and then runs a block's text. It has
// a separate process group for terminal signals.
func (s *system) newCommand(ctx context.Context, text string, out *bytes.Buffer) *exec.Cmd {
	c := exec.CommandContext(ctx, "sh", "-c", "set -e\n. "+s.env+"\n"+text)
	c.Dir, c.Stdout, c.Stderr = s.dir, out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	return c
}

func (s *system) runOnce(text string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	err := s.newCommand(ctx, text, &out).Run()
	return out.String(), err
}

// waitForWords repeats a command until it succeeds and prints all words, and returns its last output.
func (s *system) waitForWords(text string, words []string) (string, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		out, err := s.runOnce(text)
		var missing []string
		for _, w := range words {
			if !strings.Contains(out, w) {
				missing = append(missing, w)
			}
		}
		if err == nil && missing == nil {
			return out, nil
		}
		if time.Now().After(deadline) {
			if err == nil {
				err = fmt.Errorf("its output lacks %q", missing)
			}
			return out, err
		}
	}
}

// runPage runs the blocks of a page, or of one of its sections, and restores the system.
func (s *system) runPage(t *testing.T, page, section string) {
	s.t = t
	if s.left != "" {
		t.Fatalf("not run: %s did not restore the system", s.left)
	}
	file, err := os.ReadFile(filepath.Join(s.dir, page))
	if err != nil {
		t.Fatal(err)
	}
	text, above := string(file), 0
	if section != "" {
		_, above, text = cutSection(text, section)
	}
	all := pageBlocks(t, page, text)
	run := func(b block, f func(text string) (string, error)) {
		if out, err := f(b.text); err != nil {
			t.Errorf("%s:%d: %v\n%s\n%s", page, b.line+above, err, b.text, out)
		}
	}
	var last []func()
	for _, b := range all {
		switch {
		case t.Failed():
		case b.kind == "set up":
			run(b, s.runOnce)
		case b.kind == "meanwhile":
			last = append(last, s.startMeanwhile(page, b))
		}
	}
	for _, b := range all {
		switch {
		case t.Failed():
		case b.kind == "do":
			run(b, s.runOnce)
		case b.kind == "run":
			run(b, func(text string) (string, error) { return s.waitForWords(text, b.words) })
		}
	}
	for _, end := range last {
		end()
	}
	for _, b := range all {
		if b.kind == "undo" { // even after a failure, so that the next page can be tried
			run(b, s.runOnce)
		}
	}
	if !s.isHealthy() {
		s.left = t.Name()
	}
}

// startMeanwhile starts a block and returns a function that ends it like Ctrl-C.
func (s *system) startMeanwhile(page string, b block) (end func()) {
	var out bytes.Buffer
	c := s.newCommand(s.t.Context(), b.text, &out)
	if err := c.Start(); err != nil {
		s.t.Fatalf("%s:%d: %v", page, b.line, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	return func() {
		select {
		case err := <-ended:
			s.t.Errorf("%s:%d ended before the page did: %v\n%s\n%s", page, b.line, err, b.text, out.String())
		default:
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGINT)
			if err, exit := <-ended, (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				s.t.Errorf("%s:%d: %v\n%s", page, b.line, err, out.String())
			}
		}
	}
}

// isHealthy waits until the system is in the normal state that the next page needs, and reports whether it is.
func (s *system) isHealthy() bool {
	s.t.Helper()
	const ask = `curl -sf $API/readyz > /dev/null
psql "$DB" -Atc "select 'workers ' || count(*) from healthy_workers"
psql "$DB" -Atc "select 'open ' || count(*) from execution where status < 'completed'"
psql "$DB" -Atc "select 'unhandled ' || count(*) from execution where status >= 'completed' and orchestrated_at is null"`
	if out, err := s.waitForWords(ask, []string{"workers 4\n", "open 0\n", "unhandled 0\n"}); err != nil {
		s.t.Errorf("the system was not restored: %v\n%s", err, out)
		return false
	}
	return true
}

// atOnce lists pages and sections whose state is reached quickly: one playbook each about the database, the
// broker and a missing process, and an operator's daily tasks.
var atOnce = []string{
	"retry_rate", "dead_letters_open", "no_executors",
	"Restarts, upgrades, backups", "What to watch", "After an outage: retry what failed with no_workers", "Tuning", "Show one queue and its arguments", "Move messages", "Purge", "Stop a worker",
}

// Each page's commands are tried on a system in the state that the page or section describes. Some states
// take a lease or two, so make test tries only the commands of atOnce, and the queries of all pages.
func TestPageCommandsWorkAsDocumented(t *testing.T) {
	tried := 0
	some := func(name string) bool {
		if testenv.All() || slices.Contains(atOnce, name) {
			tried++
			return true
		}
		return false
	}
	s := startSystem(t, "--workers", "4", "--config", "docs/playbooks/practice.yaml")
	for _, name := range docs.PlaybookNames() {
		t.Run(name, func(t *testing.T) {
			s.tryQueries(t, "docs/playbooks/"+name+".md")
			if some(name) {
				s.runPage(t, "docs/playbooks/"+name+".md", "")
			}
		})
	}
	s.tryQueries(t, "docs/operations.md")
	for _, section := range commandSections(t, "operations.md") {
		if some(section) {
			t.Run("operations/"+section, func(t *testing.T) { s.runPage(t, "docs/operations.md", section) })
		}
	}
	if tried < len(atOnce) {
		t.Errorf("the pages have %d of the %d pages and sections whose commands have to be tried: %q", tried, len(atOnce), atOnce)
	}
}

var query = regexp.MustCompile(`(?s)psql "\$DB" -(?:At)?c ".*?[^\\]"`)

// tryQueries runs every query in a page's commands that only read. The database must accept it, whatever the
// result.
func (s *system) tryQueries(t *testing.T, page string) {
	t.Helper()
	s.t = t
	text, err := os.ReadFile(filepath.Join(s.dir, page))
	if err != nil {
		t.Fatal(err)
	}
	commands := "ID=1\n"
	for _, b := range pageBlocks(t, page, string(text)) {
		if b.kind == "run" {
			for _, q := range query.FindAllString(b.text, -1) {
				commands += q + "\n"
			}
		}
	}
	if out, err := s.runOnce(commands); err != nil {
		t.Errorf("%s: a query fails: %v\n%s", page, err, out)
	}
}

var heading = regexp.MustCompile(`(?m)^##+ (.*)\n`)

// commandSections returns the headings of a page's sections that contain commands.
func commandSections(t *testing.T, page string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		_, _, body := cutSection(string(text), m[1])
		if strings.Contains(body, "```sh run") {
			names = append(names, m[1])
		}
	}
	return names
}

// cutSection returns the text before a section, the line of its heading, and the section up to the next
// heading.
func cutSection(text, section string) (before string, line int, body string) {
	for _, at := range heading.FindAllStringSubmatchIndex(text, -1) {
		if text[at[2]:at[3]] == section {
			body = text[at[1]:]
			if next := heading.FindStringIndex(body); next != nil {
				body = body[:next[0]]
			}
			return text[:at[1]], strings.Count(text[:at[1]], "\n"), body
		}
	}
	return text, 0, ""
}
