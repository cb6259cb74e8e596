package sim

import (
	"regexp"
	"strings"
	"testing"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/scenarios"
)

// logLines keeps the log lines of a run, each with the process that wrote it.
type logLines struct{ lines []string }

// Observe implements history.Sink.
func (l *logLines) Observe(e *history.Event) {
	if e.Kind == history.Logged {
		l.lines = append(l.lines, e.Process+": "+e.Text)
	}
}

// The log lines that people search for keep their text, level and fields. The core writes each of them in a
// run of a scenario. exactly is the number of lines, 0 if it depends on durations.
func TestLogLinesKeepTheirFormat(t *testing.T) {
	const executor, worker = `executor-\d+`, `\S+-\d+`
	for _, c := range []struct {
		scenario string
		profile  config.Profile
		process  string
		line     string
		exactly  int
	}{
		{"worker-never-picks-up", config.Documented, executor, `WARN execution has been scheduled too long, marking failed executor=\S+ execution=\d+ epoch=\d+ worker=[1-9]\d* name=[a-z]\S*`, 0},
		{"dead-letters-lost", config.Hardened, executor, `WARN execution has been scheduled too long, dispatching again executor=\S+ execution=\d+ epoch=\d+ worker=[1-9]\d* name=[a-z]\S*`, 0},
		{"run-timeouts", config.Hardened, executor, `WARN execution has run past its deadline, marking timeout executor=\S+ execution=\d+ epoch=\d+ worker=[1-9]\d* name=[a-z]\S*`, 0},
		{"message-expires-in-queue", config.Hardened, executor, `WARN received dead letter executor=\S+ execution=[1-9]\d* epoch=[1-9]\d* queue=worker\.\d+\.executions reason=expired outcome=reclaimed`, 0},
		{"crash-after-heartbeat", config.Hardened, executor, `DEBUG scheduled execution to worker executor=\S+ execution=\d+ epoch=\d+ worker=[1-9]\d* name=[a-z]\S*`, 0},
		{"crash-after-heartbeat", config.Hardened, executor, `DEBUG terminal state, handling orchestration executor=\S+ execution=\d+ status=(completed|abandoned|failed)`, 0},
		{"crash-after-heartbeat", config.Hardened, worker, `INFO starting execution worker=\S+ execution=\d+ epoch=\d+ action=\S+`, 0},
		{"crash-after-heartbeat", config.Hardened, worker, `INFO execution ended worker=\S+ execution=\d+ epoch=\d+ status=completed reason= took=\d[\d.]*m?s`, 0},
		{"worker-stops-gracefully", config.Hardened, worker, `INFO deregistering worker worker=\S+ id=[1-9]\d* incarnation=[1-9]\d*`, 2},
		{"workers-gone-without-a-word", config.Hardened, executor, `WARN worker with a stale heartbeat is passed over executor=\S+ worker=[1-9]\d* name=\S+ incarnation=[1-9]\d* since_heartbeat=\S+`, 5},
		{"workers-gone-without-a-word", config.Hardened, executor, `WARN No workers with fresh heartbeats available executor=\S+ execution=\d+ runtime=shell pinned=0 why=No workers with fresh heartbeats available: of .*`, 1},
		{"workers-gone-without-a-word", config.Hardened, executor, `WARN worker marked lost executor=\S+ worker=[1-9]\d* name=[a-z]\S* incarnation=[1-9]\d*`, 0},
		{"wrong-runtime", config.Hardened, executor, `WARN No workers available executor=\S+ execution=\d+ runtime=\S+ pinned=0 why=of .*`, 0},
	} {
		what, _, _ := strings.Cut(c.line, " executor=")
		what, _, _ = strings.Cut(what, " worker=")
		t.Run(what+" in "+c.scenario, func(t *testing.T) {
			s, err := scenarios.Find(c.scenario)
			if err != nil {
				t.Fatal(err)
			}
			want := regexp.MustCompile("^" + c.process + ": " + c.line + "$")
			seen := 0
			var all logLines
			for seed := uint64(1); seed <= 5 && seen == 0; seed++ {
				all = logLines{}
				Run(s, c.profile, Options{Seed: seed, Record: &all})
				for _, line := range all.lines {
					if want.MatchString(line) {
						seen++
					}
				}
			}
			if seen == 0 || c.exactly > 0 && seen != c.exactly {
				gist := strings.Fields(what)[1]
				var like []string
				for _, line := range all.lines {
					if strings.Contains(line, gist) {
						like = append(like, line)
					}
				}
				t.Errorf("%d lines are like %s; with %q in them are\n%s", seen, want, gist, strings.Join(like[:min(len(like), 10)], "\n"))
			}
		})
	}
}
