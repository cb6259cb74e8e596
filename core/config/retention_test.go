package config

import (
	"strings"
	"testing"
	"time"
)

// Deadlines are at most a month, but retention may be longer.
func TestRetentionMayExceedDeadlines(t *testing.T) {
	e, problems := Load(Input{
		File: "c.yaml", Data: []byte("retention: {executions: 2160h}\n" + addresses), Environ: []string{"HANDOFF_RETENTION_TRANSITIONS=87600h"},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if r := e.Config.Retention; r.Executions != 2160*time.Hour || r.Transitions != 87600*time.Hour {
		t.Errorf("%+v", r)
	}
	_, problems = Load(Input{
		File: "c.yaml", Data: []byte("retention: {executions: 87601h, interval: 745h}\n" + addresses), Environ: []string{"HANDOFF_RETENTION_WORKERS=90000h"},
	})
	want := "c.yaml:1:25: retention.executions is 87601h, must be from 0s to 87600h\n" +
		"c.yaml:1:43: retention.interval is 745h, must be from 0s to 744h\n" +
		"HANDOFF_RETENTION_WORKERS: retention.workers is 90000h, must be from 0s to 87600h"
	if got := strings.Join(texts(problems), "\n"); got != want {
		t.Errorf("problems:\n%s\nwant:\n%s", got, want)
	}
}

// If queue_retention exceeds the default retention of workers, the configuration is refused with the key to
// set.
func TestDefaultRetentionExceedsQueueRetention(t *testing.T) {
	c := Default(Hardened)
	if r := c.Retention; r.Executions != DefaultRetention || r.Workers != DefaultRetention || r.Workers < 10*c.Executor.QueueRetention {
		t.Errorf("the defaults are %+v, with queues kept for %v", r, c.Executor.QueueRetention)
	}
	if r := Default(Documented).Retention; r.Any() {
		t.Errorf("the profile documented deletes: %+v", r)
	}
	c.Executor.QueueRetention = DefaultRetention + time.Hour
	if problems := c.Validate(); len(problems) != 1 || problems[0].Key != "retention.workers" {
		t.Errorf("problems: %v", problems)
	}
}
