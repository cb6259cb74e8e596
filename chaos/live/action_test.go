package live

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"handoff/chaos/scenario"
)

// The shell itself computes its action's duration from one draw; this test tries every hundredth
// draw.
func TestShellActionsTakeLogUniformTimes(t *testing.T) {
	a := &scenario.Action{TakesMin: 10 * time.Millisecond, TakesMax: 100 * time.Second, TakesLog: true}
	script := "i=0; while [ $i -le 100 ]; do r=$((i*10000-i/100)); " + takesInShell(a) + "echo $us; i=$((i+1)); done"
	out, err := exec.Command("sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var takes []time.Duration
	for _, field := range strings.Fields(string(out)) {
		us, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		takes = append(takes, time.Duration(us)*time.Microsecond)
	}
	if len(takes) != 101 || !slices.IsSorted(takes) || takes[0] != a.TakesMin {
		t.Fatalf("a greater draw must take longer, from %v on: %v", a.TakesMin, takes)
	}
	// The draw is one part in a million before the end of the last piece, which is a third longer
	// than its beginning.
	if last := takes[100]; last > a.TakesMax || last < a.TakesMax*999/1000 {
		t.Errorf("the last draw takes %v, want just under %v", last, a.TakesMax)
	}
	for decade, want := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second} {
		if got := takes[decade*25]; got < want*99/100 || got > want*101/100 {
			t.Errorf("%d%% of the draws take less than %v, want %v", decade*25, got, want)
		}
	}
}

func TestStreamsDrawLogUniformly(t *testing.T) {
	s := newStream(1, "x")
	under := 0
	for range 2000 {
		d := s.LogDuration(time.Second, 100*time.Second)
		if d < time.Second || d > 100*time.Second {
			t.Fatalf("%v is not from 1s to 100s", d)
		}
		if d < 10*time.Second {
			under++
		}
	}
	if under < 900 || under > 1100 {
		t.Errorf("%d of 2000 draws are under 10s, half are wanted", under)
	}
}
