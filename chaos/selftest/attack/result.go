//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// verdict is the outcome of an attack.
type verdict string

// The verdicts, the worst first.
const (
	gotThrough verdict = "got through"
	notTried   verdict = "can't be tried here"
	held       verdict = "held"
)

// figure is one measurement of an attack.
type figure struct {
	What  string `json:"what"`
	Value string `json:"value"`
	// Threshold is the allowed value; empty if the figure is only reported.
	Threshold string `json:"threshold,omitempty"`
	Held      bool   `json:"held"`
}

// result holds the findings of one attack. Its methods may be called from several goroutines.
type result struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Tried   string   `json:"tried"`
	Figures []figure `json:"figures"`
	Verdict verdict  `json:"verdict"`
	// Why says why the attack can't be tried, or what ended it.
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds"`

	mu sync.Mutex
}

func (r *result) add(f figure) {
	r.mu.Lock()
	r.Figures = append(r.Figures, f)
	r.mu.Unlock()
}

// tell adds a figure without a threshold.
func (r *result) tell(what, format string, args ...any) {
	r.add(figure{What: what, Value: fmt.Sprintf(format, args...), Held: true})
}

// expect compares a value that was seen with the value that is allowed.
func (r *result) expect(what, seen, allowed string, ok bool) {
	r.add(figure{What: what, Value: seen, Threshold: allowed, Held: ok})
}

// duration, memory and count compare a figure with the greatest allowed value.
func (r *result) duration(what string, d, most time.Duration) {
	r.expect(what, shownDuration(d), "≤ "+shownDuration(most), d <= most)
}

func (r *result) memory(what string, n, most int64) {
	allowed := "≤ " + shownBytes(most)
	if most == 0 {
		allowed = "none"
	}
	r.expect(what, shownBytes(n), allowed, n <= most)
}

func (r *result) count(what string, n, most int) {
	allowed := fmt.Sprintf("≤ %d", most)
	if most == 0 {
		allowed = "none"
	}
	r.expect(what, fmt.Sprint(n), allowed, n <= most)
}

// cannot says why something can't be tried here. Other measurements still count.
func (r *result) cannot(format string, args ...any) {
	r.mu.Lock()
	r.Why = strings.TrimPrefix(r.Why+"; "+fmt.Sprintf(format, args...), "; ")
	r.mu.Unlock()
}

// judge sets the verdict: an attack that got through once has got through, and one that measured
// nothing was not tried.
func (r *result) judge() {
	r.Verdict = held
	judged := false
	for _, f := range r.Figures {
		judged = judged || f.Threshold != ""
		if !f.Held {
			r.Verdict = gotThrough
			return
		}
	}
	if r.Why != "" || !judged {
		r.Verdict = notTried
	}
}

func shownDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "never"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

func shownBytes(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KB", n>>10)
	case n < 10<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// write prints a result as lines of the table.
func (r *result) write(w io.Writer) {
	fmt.Fprintf(w, "%-4s %-58s %-20s %6.1f s\n", r.ID, r.Title, strings.ToUpper(string(r.Verdict)), r.Seconds)
	fmt.Fprintf(w, "     tried: %s\n", r.Tried)
	for _, f := range r.Figures {
		mark := " "
		if !f.Held {
			mark = "✗"
		}
		fmt.Fprintf(w, "   %s %-66s %14s  %s\n", mark, f.What, f.Value, f.Threshold)
	}
	if r.Why != "" {
		fmt.Fprintf(w, "     %s\n", r.Why)
	}
	fmt.Fprintln(w)
}

// writeSummary prints a line for each result, and how many of them held.
func writeSummary(w io.Writer, all []*result) {
	counted := map[verdict]int{}
	for _, r := range all {
		counted[r.Verdict]++
		worst := ""
		for _, f := range r.Figures {
			if !f.Held {
				worst = fmt.Sprintf("%s: %s (%s)", f.What, f.Value, f.Threshold)
				break
			}
		}
		if worst == "" {
			worst = r.Why
		}
		fmt.Fprintf(w, "%-4s %-20s %s\n", r.ID, r.Verdict, worst)
	}
	fmt.Fprintf(w, "\n%d held, %d got through, %d can't be tried here\n", counted[held], counted[gotThrough], counted[notTried])
}

// writeJSON stores the results as a file.
func writeJSON(path string, all []*result) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// exitCode is 0 only if everything held, 1 if anything got through, and 4 if something could not be
// tried.
func exitCode(all []*result) int {
	code := 0
	for _, r := range all {
		switch {
		case r.Verdict == gotThrough:
			return 1
		case r.Verdict == notTried:
			code = exitEnvironment
		}
	}
	return code
}
