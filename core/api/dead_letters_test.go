package api

import (
	"strings"
	"testing"

	"handoff/core/execution"
	"handoff/core/store"
)

const lettersPath = "/api/v1/dead-letters"

// letters returns a server with three executions, a dead letter of each, and an unreadable dead letter.
func letters(t *testing.T) *bundle {
	b := setup(t, nil)
	b.store.workers = []store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 7}}}
	action := execution.Action{Ref: "core.echo", Runtime: "shell"}
	b.store.rows = []execution.Execution{
		{ID: 1, Action: action, Status: execution.Scheduled, Epoch: 3, Parameters: []byte(`{"n":1}`)},
		{ID: 2, Action: action, Status: execution.Failed, Epoch: 1, Parameters: []byte(`{"n":2}`), Pinned: 7},
		{ID: 3, Action: action, Status: execution.Running, Epoch: 1},
	}
	for i := range b.store.rows {
		b.store.letters = append(b.store.letters, store.StoredDeadLetter{
			ID: int64(i + 1), DeadLetter: store.DeadLetter{Key: b.store.rows[i].Key(), Queue: "worker.1.executions", Reason: "expired", XDeath: []byte("[]"), Outcome: "held", Open: true},
		})
	}
	b.store.letters = append(b.store.letters, store.StoredDeadLetter{ID: 4, DeadLetter: store.DeadLetter{Queue: "q", Body: []byte{0xff}, Outcome: "malformed", Open: true}})
	return b
}

func TestDeadLettersAreListedInPages(t *testing.T) {
	b := letters(t)
	a := b.do("GET", lettersPath+"?limit=3", "")
	if a.status != 200 || a.json["before"] != 2.0 || strings.Contains(a.text, `"body":`) || strings.Contains(a.text, `"id":1,`) {
		t.Errorf("the first page: %s", a.text)
	}
	a = b.do("GET", lettersPath+"?before=2", "")
	if a.status != 200 || a.json["before"] != nil || !strings.Contains(a.text, `"id":1,"execution":1,"epoch":3`) || strings.Contains(a.text, `"id":2,`) {
		t.Errorf("the last page: %s", a.text)
	}
	for _, query := range []string{"?limit=0", "?limit=many", "?opne=true", "?before=x"} {
		if a := b.do("GET", lettersPath+query, ""); a.status != 400 || !strings.Contains(a.text, `"errors"`) {
			t.Errorf("%s is answered with %d: %s", query, a.status, a.text)
		}
	}
	if a := b.do("GET", lettersPath+"/4", ""); !strings.Contains(a.text, `"body_base64":"/w=="`) {
		t.Errorf("one whose body is not text: %s", a.text)
	}
	if a := b.do("GET", lettersPath+"/9", ""); a.status != 404 {
		t.Errorf("one that does not exist: %s", a.text)
	}
}

func TestReplayRedispatchesScheduledExecution(t *testing.T) {
	b := letters(t)
	a := b.do("POST", lettersPath+"/1/replay", "")
	if row := b.store.rows[0]; a.status != 202 || row.Status != execution.Requested || row.Epoch != 4 || b.store.letters[0].Open {
		t.Errorf("%s, and the row is %v at %d", a.text, row.Status, row.Epoch)
	}
	b.do("POST", lettersPath+"/1/replay", "")
	if row := b.store.rows[0]; row.Epoch != 4 {
		t.Errorf("a second replay reclaimed it, too: epoch %d", row.Epoch)
	}
}

func TestReplayOfEndedExecutionIsIdempotent(t *testing.T) {
	b := letters(t)
	for range 2 {
		a := b.do("POST", lettersPath+"/2/replay", "")
		if a.status != 202 || a.json["execution"] != 4.0 || a.header.Get("Location") != executionsPath+"/4" {
			t.Errorf("replay: %s", a.text)
		}
	}
	if len(b.store.rows) != 4 || string(b.store.rows[3].Parameters) != `{"n":2}` || b.store.rows[3].Pinned != 7 {
		t.Errorf("the rows: %+v", b.store.rows)
	}
}

func TestReplayKeepsFirstAttemptLimits(t *testing.T) {
	b := letters(t)
	asked := execution.Limits{MaxRetries: 1, OwnRetries: true}
	b.store.rows[0].Limits = asked
	last := &b.store.rows[1]
	last.Original, last.RetryCount, last.Limits = 1, 1, execution.Limits{MaxRetries: 2, OwnRetries: true}
	b.do("POST", lettersPath+"/2/replay", "")
	if len(b.store.rows) != 4 || b.store.rows[3].Limits != asked {
		t.Errorf("the rows: %+v", b.store.rows)
	}
}

func TestRefusedReplayLeavesDeadLetterOpen(t *testing.T) {
	b := letters(t)
	for id, part := range map[string]string{"3": "is running", "4": "names no execution"} {
		if a := b.do("POST", lettersPath+"/"+id+"/replay", ""); a.status != 409 || !strings.Contains(a.text, part) {
			t.Errorf("replay of %s: %s", id, a.text)
		}
	}
	if !b.store.letters[2].Open || !b.store.letters[3].Open {
		t.Error("a refused replay has closed its dead letter")
	}
}

func TestDiscardIsIdempotentUnlessReplayed(t *testing.T) {
	b := letters(t)
	for range 2 {
		if a := b.do("POST", lettersPath+"/4/discard", ""); a.status != 204 {
			t.Errorf("discard: %d %s", a.status, a.text)
		}
	}
	b.do("POST", lettersPath+"/1/replay", "")
	if a := b.do("POST", lettersPath+"/1/discard", ""); a.status != 409 {
		t.Errorf("discarding what was replayed: %s", a.text)
	}
}
