package soak_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"handoff/chaos/soak"
)

// sampled returns a series of ten minutes with a sample every second.
func sampled(s *soak.Series, f func(second int) float64) *soak.Series {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 600 {
		s.Add(time.Duration(n)*time.Second, f(n)*(0.97+0.06*r.Float64()))
	}
	return s
}

func growing(perSecond, from float64) func(int) float64 {
	return func(n int) float64 { return from + perSecond*float64(n) }
}

// A leak is detected by the shape of its curve. A series that warms up, fluctuates or restarts occasionally
// is not reported.
func TestJudgeReportsOnlyLeaks(t *testing.T) {
	for _, c := range []struct {
		name  string
		slack float64
		of    func(int) float64
		grows bool
	}{
		{"a steady process", 20, growing(0, 60), false},
		{"a goroutine every two seconds", 20, growing(0.5, 60), true},
		{"a descriptor every ten seconds", 12, growing(0.1, 20), true},
		{"a queue that grows by three messages a second", 200, growing(3, 0), true},
		{"a heap that grows by 100 KiB a second", 8 << 20, growing(100<<10, 20<<20), true},
		{"a process that warms up for two minutes", 20, func(n int) float64 { return 40 + float64(min(n, 120)) }, false},
		{"a queue that fills during each outage", 200, func(n int) float64 {
			if n%60 < 10 {
				return 500
			}
			return 0
		}, false},
		{"less than its slack", 20, growing(0.02, 60), false},
	} {
		s := sampled(&soak.Series{Name: c.name, Rule: soak.Flat, Slack: c.slack}, c.of)
		if j := s.Judge(0, 600*time.Second, nil); j.Grows != c.grows || !j.Judged {
			t.Errorf("%s: grows %v, judged %v: %s", c.name, j.Grows, j.Judged, j.Text)
		}
	}
}

// If a leaking process is killed every two minutes, its curve looks flat over the whole soak, but the leak is
// detected in each of its lives.
func TestJudgeDetectsLeakDespiteKills(t *testing.T) {
	lives := func(leak float64) *soak.Series {
		s := &soak.Series{Name: "goroutines", Rule: soak.Flat, Slack: 20}
		for n := 0; n < 600; n += 120 {
			s.Starts = append(s.Starts, time.Duration(n)*time.Second)
		}
		return sampled(s, func(n int) float64 { return 60 + leak*float64(n%120) })
	}
	if j := lives(2).Judge(0, 600*time.Second, nil); !j.Grows || !strings.Contains(j.Text, "from each start") {
		t.Errorf("a leak of two a second: %s", j.Text)
	}
	if j := lives(0).Judge(0, 600*time.Second, nil); j.Grows {
		t.Errorf("no leak: %s", j.Text)
	}
}

func TestGrowthPerExecutionIsReported(t *testing.T) {
	executions := &soak.Series{}
	table, square := &soak.Series{Unit: "bytes", Rule: soak.PerExecution}, &soak.Series{Unit: "bytes", Rule: soak.PerExecution}
	for n := range 600 {
		at := time.Duration(n) * time.Second
		executions.Add(at, 20*float64(n))
		table.Add(at, 20*700*float64(n))
		square.Add(at, float64(n)*float64(n))
	}
	if j := table.Judge(0, 600*time.Second, executions); j.Grows || !j.Judged || !strings.Contains(j.Text, "grows with the executions: 700 B for each") {
		t.Errorf("700 bytes for each: %+v", j)
	}
	if j := square.Judge(0, 600*time.Second, executions); !j.Grows {
		t.Errorf("more for each: %+v", j)
	}
}

// A queue that grows during an outage is not reported if it is empty once the backlog is processed.
func TestJudgeIgnoresOutages(t *testing.T) {
	r := &soak.Result{Strikes: []soak.Struck{{Strike: soak.Strike{Part: "broker"}, Began: true, From: 480 * time.Second, To: 570 * time.Second}}}
	waits := func(n int) float64 {
		if n >= 480 && n < 580 {
			return 5 * float64(n-480)
		}
		return 3
	}
	s := sampled(&soak.Series{Rule: soak.Flat, Slack: 10}, waits)
	if j := s.Judge(0, 600*time.Second, nil); !j.Grows {
		t.Errorf("with the outage: %s", j.Text)
	}
	s.Without = r.Outages()
	if j := s.Judge(0, 600*time.Second, nil); j.Grows || !j.Judged {
		t.Errorf("without: %+v", j)
	}
}

func TestShortSeriesIsNotJudged(t *testing.T) {
	s := &soak.Series{Rule: soak.Flat}
	for n := range 10 {
		s.Add(time.Duration(n)*time.Second, float64(n))
	}
	if j := s.Judge(0, 10*time.Second, nil); j.Judged || j.Grows || !strings.Contains(j.Text, "too short to judge") {
		t.Errorf("%+v", j)
	}
}

// A series keeps a bounded number of points over its whole time.
func TestSeriesThinningKeepsShape(t *testing.T) {
	s := &soak.Series{}
	for n := range 100_000 {
		s.Add(time.Duration(n)*time.Second, float64(n))
	}
	points := s.Points()
	if len(points) < 600 || len(points) > 1200 {
		t.Errorf("%d points", len(points))
	}
	for i, p := range points {
		if off := p.Value - p.At.Seconds(); off < 0 || off > 200 {
			t.Fatalf("point %d at %v is %v", i, p.At, p.Value)
		}
	}
	if last := points[len(points)-1].At; last < 99_000*time.Second {
		t.Errorf("the last point is at %v", last)
	}
	if drawn := s.Drawn(240); len(drawn) > 240 {
		t.Errorf("%d points drawn", len(drawn))
	}
}
