package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/execution"
	"handoff/core/host/daemon"
)

// wall is a run.Clock over the time of a synctest bubble.
type wall struct{ began time.Time }

func (w wall) Now() time.Duration              { return time.Since(w.began) }
func (w wall) After(d time.Duration, f func()) { time.AfterFunc(d, f) }

// system is a system under test that accepts everything at once, unless configured otherwise.
type system struct {
	clock      Clock
	registered time.Duration // when the worker registers that executions are pinned to

	mu   sync.Mutex
	told []string
	keys map[string]execution.ID
	err  error
	// none is the key whose request is refused.
	none string
}

func (s *system) tell(format string, args ...any) {
	s.told = append(s.told, fmt.Sprint(s.clock.Now(), " ", fmt.Sprintf(format, args...)))
}

func (s *system) Submit(_ context.Context, requests []Request) ([]Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	var answers []Answer
	for _, r := range requests {
		if r.Key == s.none {
			answers = append(answers, Answer{Refused: "nobody knows " + r.Action})
			continue
		}
		id, existed := s.keys[r.Key]
		if !existed {
			id = execution.ID(len(s.keys) + 1)
			s.keys[r.Key] = id
			s.tell("%d: %s of %d pinned to %q", id, r.Action, r.Parent, r.Pin)
		}
		answers = append(answers, Answer{ID: id, Existed: existed})
	}
	return answers, nil
}

func (s *system) Cancel(_ context.Context, id execution.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell("cancel %d", id)
	return nil
}

func (s *system) Registered(string) bool { return s.clock.Now() >= s.registered }

// middle draws the middle of a range.
type middle struct{}

func (middle) Duration(least, most time.Duration) time.Duration    { return (least + most) / 2 }
func (middle) LogDuration(least, most time.Duration) time.Duration { return (least + most) / 2 }

// submitted runs a workload for an hour of synctest time.
func submitted(t *testing.T, s *scenario.Scenario, prepare func(*system, *WorkloadOptions)) (told []string, over bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := wall{time.Now()}
		under := &system{clock: clock, keys: make(map[string]execution.ID)}
		o := WorkloadOptions{
			Scenario: s, Clock: clock, Host: daemon.New(daemon.Options{}), Client: under, Batch: 10,
			Draws: func(int) scenario.Drawer { return middle{} },
		}
		if prepare != nil {
			prepare(under, &o)
		}
		w := NewWorkload(o)
		if !w.Submitting() {
			t.Error("it is over before it has begun")
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.Start(ctx)
		time.Sleep(time.Hour)
		cancel()
		synctest.Wait() // all tasks have ended, or the bubble fails
		told, over = under.told, !w.Submitting()
	})
	return told, over
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func actions(refs ...string) (all []scenario.Action) {
	for _, ref := range refs {
		all = append(all, scenario.Action{Action: execution.Action{Ref: ref}})
	}
	return all
}

func TestLoadIsSubmittedInTimedBatches(t *testing.T) {
	told, over := submitted(t, &scenario.Scenario{Actions: actions("a", "b"), Workload: []scenario.Load{
		{Action: "a", Count: 3, From: time.Second, Every: time.Minute, Copies: 1},
		{Action: "b", Count: 3, From: 90 * time.Second, Copies: 1},
	}}, func(_ *system, o *WorkloadOptions) { o.Batch = 2 })
	if !over {
		t.Error("it is not over")
	}
	expect(t, told, `1s 1: a of 0 pinned to ""`, `1m1s 2: a of 0 pinned to ""`,
		`1m30s 3: b of 0 pinned to ""`, `1m30s 4: b of 0 pinned to ""`, `1m30s 5: b of 0 pinned to ""`, `2m1s 6: a of 0 pinned to ""`)
}

func TestChildWaitsForAcceptedParent(t *testing.T) {
	told, _ := submitted(t, &scenario.Scenario{Actions: actions("parent", "child"), Workload: []scenario.Load{
		{Action: "child", Count: 2, Copies: 1, Parent: "parent", Siblings: 1},
		{Action: "parent", Count: 2, From: time.Second, Every: time.Second, Copies: 1},
	}}, func(_ *system, o *WorkloadOptions) { o.Batch = 1 })
	expect(t, told, `1s 1: parent of 0 pinned to ""`, `1s 2: child of 1 pinned to ""`, `2s 3: parent of 0 pinned to ""`, `2s 4: child of 3 pinned to ""`)
}

func TestPinnedLoadWaitsForItsWorker(t *testing.T) {
	told, _ := submitted(t, &scenario.Scenario{Actions: actions("a"), Workload: []scenario.Load{
		{Action: "a", Count: 1, Copies: 1, Pin: "shell-1"},
	}}, func(s *system, _ *WorkloadOptions) { s.registered = 5 * time.Second })
	expect(t, told, `5s 1: a of 0 pinned to "shell-1"`)
}

func TestRepeatedKeyIsReported(t *testing.T) {
	var known []string
	s := &scenario.Scenario{Actions: actions("a"), Workload: []scenario.Load{
		{Action: "a", Count: 1, Copies: 1},
		{Action: "a", Count: 1, Copies: 3, From: time.Second, Again: 1},
	}}
	_, over := submitted(t, s, func(_ *system, o *WorkloadOptions) {
		o.Known = func(r *Request, id execution.ID) { known = append(known, fmt.Sprint(r.Key, " is ", id)) }
	})
	// Nothing reads the answers to the two copies of the request.
	expect(t, known, s.Workload[0].Key(0, 0)+" is 1")
	if !over {
		t.Error("it is not over")
	}
}

func TestCancellationsFollowTimeOrSubmission(t *testing.T) {
	told, over := submitted(t, &scenario.Scenario{
		Actions:  actions("a"),
		Workload: []scenario.Load{{Action: "a", Count: 3, Copies: 1, From: 10 * time.Second, Every: 10 * time.Second}},
		Cancels: []scenario.Cancel{
			{Action: "a", Nth: 1, Count: 1, Timed: true, At: 15 * time.Second},
			{Action: "a", Nth: 2, Count: 2, AfterMin: time.Second, AfterMax: 3 * time.Second},
		},
	}, nil)
	if !over {
		t.Error("it is not over")
	}
	expect(t, told, `10s 1: a of 0 pinned to ""`, "15s cancel 1", `20s 2: a of 0 pinned to ""`, "22s cancel 2", `30s 3: a of 0 pinned to ""`, "32s cancel 3")
}

func TestRefusedRequestIsReported(t *testing.T) {
	s := &scenario.Scenario{Actions: actions("a", "b"), Workload: []scenario.Load{
		{Action: "a", Count: 1, Copies: 1}, {Action: "b", Count: 1, Copies: 1, Parent: "a", Siblings: 1},
	}}
	for what, prepare := range map[string]func(*system){
		"down for good":  func(s *system) { s.err = errors.New("down for good") },
		"nobody knows a": func(under *system) { under.none = s.Workload[0].Key(0, 0) },
	} {
		var why []string
		told, over := submitted(t, s, func(under *system, o *WorkloadOptions) {
			prepare(under)
			o.Refused = func(w string) { why = append(why, w) }
		})
		expect(t, why, what)
		expect(t, told) // the child waits for its parent until the run is over
		if over {
			t.Errorf("%s: the child counts as submitted", what)
		}
	}
}

func TestAbandonedWorkloadIsOver(t *testing.T) {
	w := NewWorkload(WorkloadOptions{Scenario: &scenario.Scenario{Actions: actions("a"), Workload: []scenario.Load{{Action: "a", Count: 1}}}})
	if !w.Submitting() {
		t.Error("it is over before its process has died")
	}
	if w.Abandon(); w.Submitting() {
		t.Error("it is not over")
	}
}
