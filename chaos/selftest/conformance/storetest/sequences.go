package storetest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// StepsVariable sets how many commands of random sequences are compared, and SeedVariable the first sequence.
// A failure names it.
const (
	StepsVariable = "HANDOFF_CONFORMANCE_STEPS"
	SeedVariable  = "HANDOFF_CONFORMANCE_SEED"
)

func envSetting(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, not a positive number", variable, text)
	}
	return n
}

// length is the number of commands of a sequence.
const length = 60

// subjectPair are the two compared subjects.
type subjectPair struct{ reference, subject WithSubject }

// compareCommands plays a sequence to both subjects.
func (sp subjectPair) compareCommands(t *testing.T, commands []command) (difference string, want []observation) {
	t.Helper()
	var got []observation
	sp.reference(t, func(s Subject) { want = playCommands(s, commands) })
	sp.subject(t, func(s Subject) { got = playCommands(s, commands) })
	return firstDifference(commands, want, got), want
}

// shrinkFor bounds the time in which a difference is shrunk.
const shrinkFor = 30 * time.Second

// shrinkDifference leaves out commands that the difference does not need, within the time.
func (sp subjectPair) shrinkDifference(t *testing.T, commands []command, difference string) string {
	t.Helper()
	end := time.Now().Add(shrinkFor)
	for size := len(commands) / 2; size > 0; size /= 2 {
		for from := 0; from < len(commands) && time.Now().Before(end); {
			less := slices.Delete(slices.Clone(commands), from, min(from+size, len(commands)))
			if d, _ := sp.compareCommands(t, less); d != "" {
				commands, difference = less, d
			} else {
				from += size
			}
		}
	}
	return difference
}

// tally counts the compared commands, and those with an effect.
type tally struct{ commands, effective [ops]int }

func (t *tally) countCommands(commands []command, want []observation) {
	for n, one := range commands {
		t.commands[one.op]++
		if hasEffect(want[n+1]) {
			t.effective[one.op]++
		}
	}
}

func (t *tally) commandCount() (n int) {
	for _, of := range t.commands {
		n += of
	}
	return n
}

func (t *tally) String() string {
	var each []string
	for o, n := range t.commands {
		each = append(each, fmt.Sprintf("%s %d (%d)", opNames[o], n, t.effective[o]))
	}
	return fmt.Sprintf("%d commands were compared (and so many had an effect): %s", t.commandCount(), strings.Join(each, ", "))
}

// Sequences compares random command sequences on a reference and a subject, atOnce at a time, until
// that many commands were compared, or as many as StepsVariable says. It shrinks a difference and
// shows it as a sequence of commands. It returns how many commands there were. The worlds are
// called from several goroutines at a time.
func Sequences(t *testing.T, reference, subject WithSubject, steps, atOnce int) int {
	t.Helper()
	a := subjectPair{reference, subject}
	checks := (envSetting(t, StepsVariable, steps) + length*atOnce - 1) / (length * atOnce)
	if testing.Short() {
		checks *= 5 // rapid divides by this
	}
	seed := envSetting(t, SeedVariable, 1)
	for name, value := range map[string]int{"checks": checks, "seed": seed} {
		setRapidFlag(t, name, strconv.Itoa(value))
	}
	// Leaving out commands finds the needed ones faster.
	setRapidFlag(t, "shrinktime", "1ns")
	setRapidFlag(t, "nofailfile", "true")

	var mu sync.Mutex
	var compared tally
	var worst []command
	var difference string
	t.Run("random", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			var under sync.WaitGroup
			for _, lane := range rapid.SliceOfN(sequenceGenerator(length), atOnce, atOnce).Draw(rt, "lanes") {
				under.Go(func() {
					d, want := a.compareCommands(t, lane)
					mu.Lock()
					defer mu.Unlock()
					compared.countCommands(lane, want)
					if d != "" {
						worst, difference = lane, d
					}
				})
			}
			under.Wait()
			if difference != "" {
				rt.Fatal("two answers differ")
			}
		})
	})
	t.Log(&compared)
	if difference != "" {
		t.Errorf("%s\n(%s=%d)", a.shrinkDifference(t, worst, difference), SeedVariable, seed)
	}
	return compared.commandCount()
}

func setRapidFlag(t *testing.T, name, value string) {
	t.Helper()
	if err := flag.Set("rapid."+name, value); err != nil {
		t.Fatal(err)
	}
}

// hasEffect reports whether a command changed what the survey reads.
func hasEffect(o observation) bool {
	return slices.ContainsFunc(o, func(line string) bool { return strings.HasPrefix(line, "row ") || strings.HasPrefix(line, "worker ") })
}

// firstDifference shows the sequence up to the first difference, or returns "".
func firstDifference(commands []command, want, got []observation) string {
	var told strings.Builder
	for i := range want {
		if slices.Equal(want[i], got[i]) {
			fmt.Fprintf(&told, "%s\n", strings.Join(want[i], "\n"))
			continue
		}
		what := "at the beginning"
		if i > 0 {
			what = commands[i-1].String()
		}
		return fmt.Sprintf("%sDIFFERS: %s\nreference:\n  %s\nsubject:\n  %s", &told, what,
			strings.Join(want[i], "\n  "), strings.Join(got[i], "\n  "))
	}
	return ""
}
