package audit_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"handoff/chaos/audit"
	"handoff/core/config"
	"handoff/core/testenv"
	"handoff/reports"
)

// FuzzHistory reads and judges arbitrary input: it never panics, every error names a position, and the time
// taken depends only on the input's length.
func FuzzHistory(f *testing.F) {
	const header = `{"schema":1,"scenario":"two-executors","profile":"hardened","seed":1,"mutant":"","workers":{"1":"w"}}` + "\n"
	for _, text := range []string{
		`{"at_ns":0,"kind":"worker_registered","worker":1,"incarnation":1,"due_ns":40000000000,"limit":4,"text":"shell","process":"w"}
{"at_ns":1,"kind":"worker_lifecycle","worker":1,"incarnation":1,"lifecycle":"active"}
{"at_ns":2,"kind":"heartbeat_renewed","worker":1,"incarnation":1,"due_ns":40000000000,"limit":1}
{"at_ns":3,"kind":"created","execution":1,"chain":1,"to":"requested","by":"api","action":"a","text":"shell","key":"a k","limit":2}
{"at_ns":4,"kind":"transition","execution":1,"chain":1,"from":"requested","to":"scheduling","by":"scheduler","process":"executor-1"}
{"at_ns":5,"kind":"transition","execution":1,"chain":1,"epoch":1,"from":"scheduling","to":"scheduled","by":"scheduler","worker":1,"incarnation":1,"due_ns":9}
{"at_ns":6,"kind":"published","execution":1,"epoch":1,"message":7,"type":"execution.scheduled","queue":"worker.1.executions","count":1}
{"at_ns":7,"kind":"transition","execution":1,"chain":1,"epoch":1,"old_epoch":1,"named":1,"from":"scheduled","to":"running","by":"worker","worker":1,"incarnation":1}
{"at_ns":8,"kind":"transition","execution":1,"chain":1,"epoch":1,"old_epoch":1,"named":1,"from":"running","to":"failed","reason":"transient","by":"worker"}
{"at_ns":9,"kind":"orchestrated","execution":1,"chain":1,"from":"failed"}
{"at_ns":3600000000000,"kind":"quiescent"}`,
		`{"at_ns":9223372036854775807,"kind":"process_started","process":"a"}`,
		`{"at_ns":0,"kind":"orchestrated","execution":9007199254740991,"chain":9007199254740991,"from":"completed"}`,
		`{"at_ns":0,"kind":"action_defined","action":"a","count":1}` + "\n" + `{"at_ns":0,"kind":"slot_taken","execution":1,"action":"a","count":1}`,
		`{"at_ns":5,"kind":"clock_stepped","due_ns":-5}`, `{"at_ns":0,"kind":"fault_began","fault":"f","text":"deaf","process":"a,b"}`,
		`{"at_ns":0,"kind":"orchestrated","execution":1,"related":-1}`, "\xff", "{}", "",
	} {
		f.Add([]byte(header + text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := reports.NewHistoryReader("h", bytes.NewReader(data))
		if err != nil {
			placed(t, err)
			return
		}
		begin := time.Now()
		if _, err := audit.JudgeHistory(t.Context(), r.Next, audit.History{Config: config.Default(config.Hardened), Kinds: r.Header().Kinds}); err != nil {
			placed(t, err)
		}
		if took := time.Since(begin); took > testenv.Patience() {
			t.Errorf("judging %d bytes took %v", len(data), took)
		}
	})
}

// placed checks that an error names a position in the input and contains no terminal control characters.
func placed(t *testing.T, err error) {
	t.Helper()
	if text := err.Error(); !strings.HasPrefix(text, "h:") || len(text) > 2000 || strings.ContainsAny(text, "\x00\x1b\n") {
		t.Errorf("the error is %q", text)
	}
}
