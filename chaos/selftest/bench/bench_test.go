package main

import (
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestProcessorTimesIncludeDescendants(t *testing.T) {
	before, err := processorTimes()
	if err != nil {
		t.Fatal(err)
	}
	// The time of a child that has ended counts with this process.
	spin := exec.Command("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
	if err := spin.Run(); err != nil {
		t.Fatal(err)
	}
	took := spin.ProcessState.UserTime() + spin.ProcessState.SystemTime()
	after, err := processorTimes()
	if err != nil {
		t.Fatal(err)
	}
	if got := after["clients"] - before["clients"]; got < took-2*tick {
		t.Errorf("a child used %v, and %v are counted", took, got)
	}
	if after["RabbitMQ"] != 0 {
		t.Errorf("no server runs below this process, and it has used %v", after["RabbitMQ"])
	}
}

func TestParseOptionsExplainsInvalidFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"--scale -1":                     "--scale -1: at least 2000000, because 1000000 finished executions are measured before; 0 measures no table sizes",
		"--scale 5":                      "--scale 5: at least 2000000",
		"--scale 2000000 --lists 500":    "--scale 2000000 --lists 500: one run measures one of them; leave out the others",
		"--retention 500000 --lists 5":   "--lists 5 --retention 500000: one run measures one of them; leave out the others",
		"--retention 7":                  "--retention 7: at least 200000, so that some are left at the end of a window; 0 measures no retention",
		"--window 20s":                   "--window 20s: only --retention has one",
		"--retention 500000 --window 2s": "--window 2s: at least 10s, because a retention looks every ten seconds",
		"--lists -1":                     "--lists -1: 0 measures no lists",
		"--workers 1,x":                  `--workers "1,x": must be numbers from 1 to 16`,
		"--jobs 3":                       "--jobs 3 --rounds 5 --samples 300: at least 100, 1 and 10 are needed",
	} {
		if _, err := parseOptions(strings.Fields(flags)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", flags, err, want)
		}
	}
	if o, err := parseOptions([]string{"--scale", "2000000"}); err != nil || o.scale != 2_000_000 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestCopiesForReachesRequestedRows(t *testing.T) {
	for _, c := range []struct{ n, have, want int64 }{{100, 100, 0}, {50, 100, 0}, {101, 100, 1}, {200, 100, 1}, {201, 100, 2}} {
		if got := copiesFor(c.n, c.have); got != c.want {
			t.Errorf("%d rows from %d: %d copies, want %d", c.n, c.have, got, c.want)
		}
	}
}

func TestRatiosComparePerRound(t *testing.T) {
	var text strings.Builder
	tab := &table{options: options{jobs: 100, rounds: 3}, load: 7}
	for round, used := range [][2]time.Duration{{40, 10}, {900, 300}, {20, 10}} {
		tab.addMeasurement(round+1, &measurement{way: "daemons", n: 100, took: time.Second, used: map[string]time.Duration{"PostgreSQL": used[0] * time.Millisecond}, wal: 1000})
		tab.addMeasurement(round+1, &measurement{way: riverBest, n: 100, took: time.Second / 2, used: map[string]time.Duration{"clients": used[1] * time.Millisecond}})
	}
	got := median(tab.findWay("daemons").ratiosTo(tab.findWay(riverBest), func(m *measurement) float64 { return toMicros(m.totalPerExecution()) }))
	if math.Abs(got-3) > 1e-9 {
		t.Errorf("the ratios of the rounds are 4, 3 and 2, and their median is given as %v", got)
	}
	tab.printTable(&text)
	for _, want := range []string{"3.00", "0.50", "not judged"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
}

func TestPrintPurgesComparesPerRound(t *testing.T) {
	var text strings.Builder
	tab := &table{options: options{retention: 1_000_000, rounds: 2, window: 10 * time.Second}}
	used := map[string]time.Duration{"PostgreSQL": time.Second}
	claims := func(d time.Duration) []time.Duration { return []time.Duration{d, d, d} }
	for round, ways := range [][]purgeMeasurement{
		{{claims: claims(10)}, {claims: claims(20), executions: 5000, ofAge: 4000, created: 3000}},
		{{claims: claims(120), executions: 5000}, {claims: claims(30)}},
	} {
		for i := range ways {
			p := &ways[i]
			p.claims = slices.Clone(p.claims)
			for j := range p.claims {
				p.claims[j] *= time.Millisecond
			}
			p.measurement, p.window = measurement{way: nothingLeaves, n: 100, took: time.Second, used: used}, 10*time.Second
			if p.executions > 0 {
				p.way = dayLeaves
			}
			tab.addPurge(round+1, p)
		}
	}
	tab.printTable(&text)
	for _, want := range []string{"noop executions for 10s, beside at least 1000000 finished ones, a measurement", "p50 3.00, p99 3.00", "20.0 ms      2.00", "120.0 ms      4.00"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
}
