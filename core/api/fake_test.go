package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/submission"
)

// fakeStore is a store.Client in memory that can fail like an unavailable database.
type fakeStore struct {
	mu      sync.Mutex
	actions map[string]execution.Action
	rows    []execution.Execution
	letters []store.StoredDeadLetter
	discard store.DeadLetterDiscard
	summary store.DeadLetterSummaryQuery
	// observations are in the order of their ids.
	observations []store.Observation
	workers      []store.WorkerRow
	cordons      []store.Cordon
	reclaims     []store.Reclaim
	audit        map[execution.ID][]store.Transition
	changes      []store.Change
	gone         store.Position
	held         bool
	// fails are the errors that the next calls return; a call that returns ErrUnknownOutcome still takes
	// effect.
	fails []error
	calls int
	// unreadable has the reason why a row can't be read, by the row's id.
	unreadable map[execution.ID]string
}

func (f *fakeStore) fail() error {
	f.calls++
	if len(f.fails) == 0 {
		return nil
	}
	err := f.fails[0]
	f.fails = f.fails[1:]
	return err
}

func (f *fakeStore) Executions(_ context.Context, ids []execution.ID) ([]execution.Execution, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail(); err != nil {
		return nil, err
	}
	var rows []execution.Execution
	for _, r := range f.rows {
		if slices.Contains(ids, r.ID) {
			if why := f.unreadable[r.ID]; why != "" {
				return nil, fmt.Errorf("%w: %s", store.ErrUnreadable, why)
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (f *fakeStore) Actions(_ context.Context, q store.ActionQuery) (page []execution.Action, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail(); err != nil {
		return nil, err
	}
	if strings.ContainsRune(q.Ref+q.After, 0) {
		return nil, errors.New("invalid byte sequence") // as PostgreSQL says
	}
	for _, ref := range slices.Sorted(maps.Keys(f.actions)) {
		if q.Matches(ref) && len(page) < q.Limit {
			page = append(page, f.actions[ref])
		}
	}
	return page, nil
}

func (f *fakeStore) PutActions(_ context.Context, actions []execution.Action) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail(); err != nil {
		return err
	}
	for _, a := range actions {
		f.actions[a.Ref] = a
	}
	return nil
}

func (f *fakeStore) Create(_ context.Context, items []store.NewExecution) ([]store.Created, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fail()
	if err != nil && !strings.Contains(err.Error(), store.ErrUnknownOutcome.Error()) {
		return nil, err
	}
	var out []store.Created
	for _, item := range items {
		a, known := f.actions[item.ActionRef]
		at := -1
		for i := range f.rows {
			if item.IdempotencyKey != "" && f.rows[i].IdempotencyKey == item.IdempotencyKey {
				at = i
			}
		}
		switch {
		case !known:
			out = append(out, store.Created{UnknownAction: true})
		case item.Pinned != 0 && !slices.ContainsFunc(f.workers, func(w store.WorkerRow) bool { return w.ID == item.Pinned }):
			out = append(out, store.Created{UnknownWorker: true})
		case at >= 0:
			out = append(out, store.Created{ID: f.rows[at].ID, Existed: true})
		case int(item.Parent) > len(f.rows):
			out = append(out, store.Created{UnknownParent: true})
		default:
			id := execution.ID(len(f.rows) + 1)
			f.rows = append(f.rows, execution.Execution{
				ID: id, Action: item.Limits.On(a), Limits: item.Limits, Parameters: item.Parameters, IdempotencyKey: item.IdempotencyKey,
				Status: execution.Requested, Pinned: item.Pinned, Created: time.Unix(1e9, 0), SubmittedBy: item.Actor,
			})
			if item.Parent != 0 {
				f.adopt(&f.rows[id-1], &f.rows[item.Parent-1])
			}
			out = append(out, store.Created{ID: id})
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// adopt makes a row the child of another: a waiting child, or a skipped one if the parent has failed.
func (f *fakeStore) adopt(child, parent *execution.Execution) {
	child.Parent, child.AwaitsParent = parent.Chain(), parent.Status != execution.Failed
	if parent.Status == execution.Failed {
		child.Status = execution.Cancelled
	}
}

func (f *fakeStore) List(_ context.Context, q store.ExecutionQuery) ([]store.Listed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var page []store.Listed
	for i := range slices.Backward(f.rows) {
		r := &f.rows[i]
		if q.IDs == nil && (len(page) >= q.Limit || !q.Matches(r)) || q.IDs != nil && !slices.Contains(q.IDs, r.ID) {
			continue
		}
		row := f.listed(*r)
		if q.WithParameters {
			row.Parameters = r.Parameters
		}
		if q.Digests {
			row.Digest, row.Size = sha256.Sum256(r.Parameters), len(r.Parameters)
		}
		page = append(page, row)
	}
	return page, f.fail()
}

// listed returns a row without the fields that lists leave out.
func (f *fakeStore) listed(r execution.Execution) store.Listed {
	if why := f.unreadable[r.ID]; why != "" {
		return store.Listed{Execution: execution.Execution{ID: r.ID}, Unreadable: why}
	}
	r.Parameters, r.Result, r.Action.Entrypoint = nil, execution.Result{}, ""
	return store.Listed{Execution: r}
}

func (f *fakeStore) Chain(_ context.Context, id execution.ID) ([]store.Listed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var chain []store.Listed
	for _, r := range f.rows {
		if int(id) <= len(f.rows) && r.Chain() == f.rows[id-1].Chain() {
			chain = append(chain, f.listed(r))
		}
	}
	return chain, f.fail()
}

func (f *fakeStore) Transitions(_ context.Context, q store.TransitionQuery) (page []store.Transition, err error) {
	for i, t := range f.audit[q.Execution] {
		if t.Line = int64(i + 1); t.Line > q.After && len(page) < q.Limit {
			page = append(page, t)
		}
	}
	return page, nil
}

// Changes returns changes with one transaction each.
func (f *fakeStore) Changes(_ context.Context, q store.ChangeQuery) (page store.ChangePage, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail(); err != nil {
		return page, err
	}
	page.End = store.Position{Transaction: uint64(len(f.changes) + 1)}
	page.Gone, page.Held = f.gone, f.held
	page.Next = page.End
	looked := 0
	for _, c := range f.changes {
		if !q.After.Before(c.Position) || q.Limit <= 0 || !f.gone.Before(c.Position) {
			continue
		}
		if looked++; looked > q.Limit {
			page.More = true
			break
		}
		page.Next = c.Position
		if (q.Execution == 0 || q.Execution == c.Execution) && (q.ActionRef == "" || q.ActionRef == c.ActionRef) && (q.To == execution.None || q.To == c.To) {
			page.Changes = append(page.Changes, c)
		}
	}
	if !page.More {
		page.Next = page.End
	}
	return page, nil
}

// changed records a change.
func (f *fakeStore) changed(id execution.ID, ref string, to execution.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.changes) + 1
	f.changes = append(f.changes, store.Change{
		Position: store.Position{Transaction: uint64(n), ID: int64(100 - n)}, Execution: id, ActionRef: ref,
		Transition: store.Transition{To: to, By: execution.API, At: time.Unix(1e9, 0)},
	})
}

func (f *fakeStore) Cancel(_ context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fail()
	if err != nil && !strings.Contains(err.Error(), store.ErrUnknownOutcome.Error()) {
		return nil, err
	}
	answers := make([]store.Cancellation, len(ids))
	for i, id := range ids {
		if id < 1 || int(id) > len(f.rows) {
			continue
		}
		r := &f.rows[id-1]
		answers[i].From, answers[i].Applied = r.Status, !r.Status.Terminal()
		if answers[i].Applied {
			r.CancelRequestedBy = actor
		}
		switch r.Status {
		case execution.Requested:
			r.Status = execution.Cancelled
		case execution.Running:
			r.Status = execution.Canceling
		default:
		}
		answers[i].Row = *r
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (f *fakeStore) FindWorkers(_ context.Context, q store.WorkerQuery) (page []store.WorkerRow, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.workers {
		if len(page) < q.Limit && q.Matches(&w) {
			page = append(page, w)
		}
	}
	return page, f.fail()
}

func (f *fakeStore) SetCordon(_ context.Context, c store.Cordon) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail(); err != nil {
		return false, err
	}
	f.cordons = append(f.cordons, c)
	at := slices.IndexFunc(f.workers, func(w store.WorkerRow) bool { return w.ID == c.Worker })
	if at >= 0 {
		f.workers[at].Cordoned, f.workers[at].CordonReason, f.workers[at].CordonChangedBy = c.On, c.Reason, c.Actor
	}
	return at >= 0, nil
}

// bundle is a server over a fake store with one action.
type bundle struct {
	t     testing.TB
	store *fakeStore
	http.Handler
}

func setup(t testing.TB, change func(*Options)) *bundle {
	t.Helper()
	db := &fakeStore{actions: map[string]execution.Action{"core.echo": {Ref: "core.echo", Runtime: "shell", MaxRetries: 1}}}
	h := daemon.New(daemon.Options{})
	c := config.Default(config.Hardened)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	client := broker.NewClient(h, nil, broker.Topology{}, c.MessageQueue.RabbitMQ, log)
	o := Options{
		Submitter: &submission.Submitter{Host: h, Store: db, Notifier: broker.NewNotifier(h, client, "test", log), Timeout: time.Second},
		Store:     db, Config: c, Log: log,
		Checks: []Check{DatabaseCheck(db), BrokerCheck(func() bool { return false })},
	}
	if change != nil {
		change(&o)
	}
	return &bundle{t, db, NewServer(o).Handler()}
}

// answer is a response whose body has been read.
type answer struct {
	status int
	header http.Header
	text   string
	json   map[string]any
}

// do sends a request whose response is JSON; headers are pairs.
func (b *bundle) do(method, path, body string, headers ...string) answer {
	b.t.Helper()
	a := b.ask(method, path, body, headers...)
	if err := json.Unmarshal([]byte(a.text), &a.json); err != nil && a.status != http.StatusNoContent && method != http.MethodHead {
		b.t.Errorf("the response to %s %s is not JSON: %q", method, path, a.text)
	}
	if want := "application/problem+json"; a.status >= 400 && path != "/readyz" && a.header.Get("Content-Type") != want {
		b.t.Errorf("%s %s: status %d has type %q, want %q", method, path, a.status, a.header.Get("Content-Type"), want)
	}
	return a
}

// ask sends a request. The OpenAPI document must describe it and its response.
func (b *bundle) ask(method, path, body string, headers ...string) answer {
	b.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	expectDocumented(b.t, &exchange{method: method, target: path, sent: r.Header, body: []byte(body), status: w.Code, got: w.Header(), answer: w.Body.Bytes()})
	return answer{status: w.Code, header: w.Header(), text: w.Body.String()}
}

func (f *fakeStore) Observations(_ context.Context, q store.ObservationQuery) ([]store.Observation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail(); err != nil {
		return nil, err
	}
	var page []store.Observation
	for _, o := range slices.Backward(f.observations) {
		if len(page) < q.Limit && q.Matches(&o) {
			page = append(page, o)
		}
	}
	return page, nil
}

func (f *fakeStore) DeadLetters(_ context.Context, q store.DeadLetterQuery) ([]store.StoredDeadLetter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail(); err != nil {
		return nil, err
	}
	var page []store.StoredDeadLetter
	for _, d := range slices.Backward(f.letters) {
		if len(page) < q.Limit && (q.Before == 0 || d.ID < q.Before) && (d.Open || !q.Open) {
			d.XDeath, d.Body = nil, nil
			page = append(page, d)
		}
	}
	return page, nil
}

func (f *fakeStore) DeadLetter(_ context.Context, id int64) (d store.StoredDeadLetter, known bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail(); err != nil {
		return d, false, err
	}
	i := slices.IndexFunc(f.letters, func(d store.StoredDeadLetter) bool { return d.ID == id })
	if i < 0 {
		return d, false, nil
	}
	return f.letters[i], true, nil
}

func (f *fakeStore) SettleDeadLetter(_ context.Context, id int64, outcome, actor string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.letters, func(d store.StoredDeadLetter) bool { return d.ID == id && d.Open })
	if i < 0 {
		return false, nil
	}
	f.letters[i].Open, f.letters[i].Outcome, f.letters[i].HandledAt, f.letters[i].HandledBy = false, outcome, time.Unix(2e9, 0), actor
	return true, nil
}

func (f *fakeStore) DiscardDeadLetters(_ context.Context, d store.DeadLetterDiscard, _ string) (store.DeadLettersDiscarded, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.discard = d
	return store.DeadLettersDiscarded{Closed: 3, Next: 7, More: true}, f.fail()
}

func (f *fakeStore) SummarizeDeadLetters(_ context.Context, q store.DeadLetterSummaryQuery) (store.DeadLetterSummary, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.summary = q
	now := time.Unix(2e9, 0)
	return store.DeadLetterSummary{Since: now.Add(-q.Window), Until: now, Total: 5, More: true, Groups: []store.DeadLetterGroup{
		{From: now.Add(-time.Hour), Reason: "expired", ActionRef: "core.echo", Worker: 7, Count: 4},
		{Reason: "malformed", Count: 1},
	}}, f.fail()
}

func (f *fakeStore) Reclaim(_ context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reclaims = append(f.reclaims, rs...)
	out := make([]store.Outcome, len(rs))
	for i, r := range rs {
		for j := range f.rows {
			if row := &f.rows[j]; row.Key() == r.Key && row.Status == execution.Scheduled {
				row.Status = execution.Requested
				row.Epoch++
				out[i] = store.Outcome{Applied: true, Row: *row}
			}
		}
	}
	return out, nil
}

// purge deletes the first changes.
func (f *fakeStore) purge(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = f.changes[n-1].Position
}
