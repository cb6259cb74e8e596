package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/testenv"
)

// heldStore is a store whose lists block until the test releases them.
type heldStore struct {
	*fakeStore
	entered chan struct{}
	leave   chan struct{}
}

func (h *heldStore) List(ctx context.Context, q store.ExecutionQuery) ([]store.Listed, error) {
	if q.IDs == nil {
		h.entered <- struct{}{}
		<-h.leave
	}
	return h.fakeStore.List(ctx, q)
}

func TestListsDoNotBlockSubmissions(t *testing.T) {
	db := &heldStore{newStore(), make(chan struct{}, 100), make(chan struct{})}
	var o Options
	b := setup(t, func(given *Options) { given.Store, given.Submitter.Store = db, db; o = *given })
	server := NewServer(o)
	server.gates.lists.patience = 10 * time.Millisecond
	b.Handler = server.Handler()
	const lists = 20
	answers := make(chan answer, lists)
	for range lists {
		go func() { answers <- b.do("GET", executionsPath, "") }()
	}
	for range placesOfLists {
		<-db.entered
	}
	release := sync.OnceFunc(func() { close(db.leave) })
	defer release()
	for range lists - placesOfLists {
		var a answer
		select {
		case <-db.entered:
			t.Fatalf("more than %d lists are at the database at once", placesOfLists)
		case a = <-answers:
		}
		if a.status != 503 || a.header.Get("Retry-After") != "1" || !strings.Contains(a.text, "busy with all the lists that it does at once (1)") {
			t.Errorf("a list beyond the places: %d %s", a.status, a.text)
		}
	}
	if a := b.do("POST", executionsPath, echo); a.status != 201 {
		t.Errorf("a submission while lists hold all their places: %d %s", a.status, a.text)
	}
	if a := b.do("GET", executionsPath+"/1", ""); a.status != 200 {
		t.Errorf("a single row while lists hold all their places: %d %s", a.status, a.text)
	}
	release()
	for range placesOfLists {
		if a := <-answers; a.status != 200 {
			t.Errorf("a list with a place: %d %s", a.status, a.text)
		}
	}
	if a := b.do("GET", executionsPath, ""); a.status != 200 || len(db.entered) != 1 {
		t.Errorf("places were not released: %d, %d lists at the store", a.status, len(db.entered))
	}
}

// A request that waits for a place does not query the database, even after its client has disconnected.
func TestDisconnectedClientLeavesQueue(t *testing.T) {
	g := newGate("lists", 1)
	g.patience = time.Hour
	leave, _ := g.takePlace(t.Context())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, problem := g.takePlace(gone); problem == nil || g.waiting.Load() != 0 {
		t.Errorf("a client that left: %v, %d wait", problem, g.waiting.Load())
	}
	leave()
	if _, problem := g.takePlace(t.Context()); problem != nil {
		t.Errorf("the place was not released: %+v", problem)
	}
	g.waiting.Store(queueOfRequests)
	if _, problem := g.takePlace(t.Context()); problem == nil {
		t.Error("more requests wait than allowed")
	}
}

// slowStore is a store whose batches block until the test releases them.
type slowStore struct {
	*fakeStore
	entered atomic.Int64
	leave   chan struct{}
}

func (s *slowStore) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	s.entered.Add(1)
	<-s.leave
	return s.fakeStore.Create(ctx, items)
}

func TestBatchesWaitBeforeReadingBody(t *testing.T) {
	db := &slowStore{fakeStore: newStore(), leave: make(chan struct{})}
	var o Options
	setup(t, func(given *Options) { given.Store, given.Submitter.Store = db, db; o = *given })
	server := NewServer(o)
	big := dense(maxParameters)
	batch := batchOf(15, func(int) string { return item(big, "") })()
	batch = bytes.ReplaceAll(batch, []byte(`"idempotency_key":"",`), nil)
	released := false
	grown := thirtyTwo(t, server.Handler(), func() *http.Request {
		r := localRequest("POST", executionsPath+"/batch", io.MultiReader(bytes.NewReader(batch)))
		r.Header.Set("Content-Type", "application/json")
		return r
	}, func() {
		n := db.entered.Load()
		if released || n < 32 && (n < placesOfLarge || server.gates.large.waiting.Load() < 32-placesOfLarge) {
			return
		}
		if n > placesOfLarge {
			t.Errorf("%d batches are at the database at once, %d may be", n, placesOfLarge)
		}
		released = true
		close(db.leave)
	})
	t.Logf("the heap grew by %d MB", grown>>20)
	if testenv.All() && grown > 256<<20 {
		t.Errorf("32 batches at once added %d MB, allowed are 256", grown>>20)
	}
}

// thirtyTwo serves 32 concurrent requests and returns the peak growth of the live heap.
func thirtyTwo(t *testing.T, h http.Handler, request func() *http.Request, look func()) (grown int64) {
	t.Helper()
	size := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	runtime.GC()
	before := size()
	var all sync.WaitGroup
	var served atomic.Int64
	for range 32 {
		all.Go(func() {
			w := &countingWriter{header: http.Header{}}
			if h.ServeHTTP(w, request()); w.status == http.StatusOK {
				served.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			if served.Load() == 0 {
				t.Error("none of 32 requests was served")
			}
			return grown
		case <-tick.C:
			grown = max(grown, size()-before)
			look()
		}
	}
}

func TestConcurrentRequestsStayWithinMemoryBounds(t *testing.T) {
	testenv.Nightly(t, "when the heap is collected depends on the load; what each request allocates is bounded in make test")
	for name, request := range map[string]func() *http.Request{
		"lists":         func() *http.Request { return localRequest("GET", "/api/v1/actions?limit=500", http.NoBody) },
		"large rows":    func() *http.Request { return localRequest("GET", executionsPath+"/1", http.NoBody) },
		"large letters": func() *http.Request { return localRequest("GET", lettersPath+"/1", http.NoBody) },
	} {
		grown := thirtyTwo(t, whole(t, full().another()), request, func() {})
		t.Logf("%s: %d MB", name, grown>>20)
		if grown > 256<<20 {
			t.Errorf("32 %s at once added %d MB, allowed are 256", name, grown>>20)
		}
	}
}

func TestDisconnectEndsBodyReading(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, ok := parseBody(ctx, fill(`{"executions":[`, `{"action_ref":"core.echo"},`, 1<<20, `]}`)())
	read := 0
	if ok {
		b.readObject("", []string{"executions"}, "executions", func(pointer string) {
			b.readItems(pointer, 1e6, func(string) { read++ })
		})
	}
	if read > 0 || b.close() {
		t.Errorf("%d items were read for a disconnected client", read)
	}
}

func TestInvalidTextIsRefusedWithPosition(t *testing.T) {
	b := setup(t, nil)
	for path, want := range map[string]string{
		executionsPath + "?action_ref=%ff":                         `"field":"action_ref","detail":"is not UTF-8 text from byte 1 on"`,
		executionsPath + "?action_ref=a%00":                        `"field":"action_ref","detail":"has a NUL as byte 2`,
		executionsPath + "?worker_id=1;select%201":                 `"field":"worker_id","detail":"invalid semicolon separator in query`,
		executionsPath + "?a=1;b=2":                                `"field":"a"`,
		executionsPath + "?limit=%zz":                              `"field":"limit","detail":"invalid URL escape`,
		executionsPath + "?%ff=1":                                  `is not UTF-8`,
		executionsPath + "?" + strings.Repeat("limit=1&", 32):      `more than 32 parameters`,
		executionsPath + "?action_ref=" + strings.Repeat("x", 201): `a name has at most 200 characters`,
		"/api/v1/actions?after=%ff":                                `"field":"after"`,
		"/api/v1/actions/%ff":                                      `"field":"path","detail":"is not UTF-8 text from byte 17 on"`,
		"/api/v1/workers/%00":                                      `"field":"path"`,
		"/api/v1/workers/%ff/cordon":                               `"field":"path"`,
		"/api/v1/changes?action_ref=%ff":                           `"field":"action_ref"`,
		"/api/v1/executions/1/transitions?after=%ff":               `"field":"after"`,
		"/readyz?%ff":                                              `is not UTF-8`,
	} {
		method := "GET"
		if strings.HasSuffix(path, "cordon") {
			method = "POST"
		}
		if a := b.do(method, path, ""); a.status != 400 || !strings.Contains(a.text, want) {
			t.Errorf("%s: %d %s, want %s", path, a.status, a.text, want)
		}
	}
	for header, path := range map[string]string{"Idempotency-Key": executionsPath, "Last-Event-ID": changesPath} {
		method := map[bool]string{true: "POST", false: "GET"}[path == executionsPath]
		for _, text := range []string{"\xff", "a\x00"} {
			if a := b.do(method, path, echo, header, text); a.status != 400 || !strings.Contains(a.text, `"field":"`+header+`"`) {
				t.Errorf("%s %q: %d %s", header, text, a.status, a.text)
			}
		}
	}
	for path, m := range new(Server).routes() {
		if _, reads := m[http.MethodGet]; !reads {
			continue
		}
		target := strings.NewReplacer("{id}", "1", "{ref}", "core.echo").Replace(path)
		for _, query := range []string{"?after=%ff", "?status=failed;limit=1", "?limit=%zz"} {
			if a := b.do("GET", target+query, ""); a.status != 400 {
				t.Errorf("%s: %d %s", target+query, a.status, a.text)
			}
		}
		if target == path {
			continue
		}
		for _, name := range []string{"%ff", "%00"} {
			target := strings.NewReplacer("{id}", name, "{ref}", name).Replace(path)
			if a := b.do("GET", target, ""); a.status != 400 {
				t.Errorf("%s: %d %s", target, a.status, a.text)
			}
		}
	}
	if b.store.calls > 0 {
		t.Errorf("%d calls reached the database", b.store.calls)
	}
}

func TestUnsupportedBodyEncodingsAreRefused(t *testing.T) {
	b := setup(t, nil)
	for _, x := range []struct {
		header, text string
		status       int
	}{
		{"Content-Type", "application/json; charset=utf-16", 415},
		{"Content-Type", "application/json; charset=UTF-8", 201},
		{"Content-Type", `application/json; charset="UTF-8"`, 201},
		{"Content-Type", "application/json; charset=iso-8859-1", 415},
		{"Content-Type", "application/json; version=1", 201},
		{"Content-Encoding", "gzip", 415},
		{"Content-Encoding", "br", 415},
		{"Content-Encoding", "identity", 201},
	} {
		if a := b.do("POST", executionsPath, echo, x.header, x.text); a.status != x.status {
			t.Errorf("%s: %s: %d %s", x.header, x.text, a.status, a.text)
		}
	}
}

func TestUnreadableRowDoesNotHideOthers(t *testing.T) {
	b := setup(t, nil)
	for range 3 {
		b.do("POST", executionsPath, echo)
	}
	b.store.unreadable = map[execution.ID]string{2: "result of execution 2: must be an object"}
	b.store.workers = []store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 1}, Name: "w", Unreadable: "capabilities is a JSON string"}}
	a := b.do("GET", executionsPath, "")
	if a.status != 200 || !strings.Contains(a.text, `{"id":2,"unreadable":"result of execution 2: must be an object"}`) || !strings.Contains(a.text, `"id":3,`) || !strings.Contains(a.text, `"id":1,`) {
		t.Errorf("the list: %d %s", a.status, a.text)
	}
	a = b.do("GET", executionsPath+"/2", "")
	if a.status != 500 || a.json["type"] != typeUnreadable || !strings.Contains(a.text, "result of execution 2: must be an object") {
		t.Errorf("the row: %d %s", a.status, a.text)
	}
	if a := b.do("GET", "/api/v1/workers", ""); a.status != 200 || !strings.Contains(a.text, `"unreadable":"capabilities is a JSON string"`) {
		t.Errorf("the workers: %d %s", a.status, a.text)
	}
}

func TestResponseListsAtMostHundredMistakes(t *testing.T) {
	b := setup(t, nil)
	for path, body := range map[string][]byte{
		executionsPath:                 fill(`{`, "\n\"x\":1,", 1<<19, `}`)(),
		executionsPath + "/batch":      fill(`{"executions":[`, "\n{},", 1<<19, `]}`)(),
		"/api/v1/dead-letters/discard": fill(`{"ids":[`, "\n0,", 1<<19, `]}`)(),
		"/api/v1/workers/1/cordon":     fill(`{`, "\n\"reasen\":1,", 1<<19, `}`)(),
	} {
		a := b.do("POST", path, string(body))
		list, _ := a.json["errors"].([]any)
		if a.status != 400 || len(list) != 100 || !strings.Contains(a.text, "up to its mistake number 100; there may be more") {
			t.Errorf("%s: %d, %d mistakes, %.300s", path, a.status, len(list), a.text)
			continue
		}
		if last := list[99].(map[string]any); last["line"] != 101.0 {
			t.Errorf("%s: the last mistake: %v", path, last)
		}
	}
}

func TestPageIsLimitedInBytes(t *testing.T) {
	db := full().another()
	h := whole(t, db)
	seen, after := map[string]bool{}, ""
	for pages := 0; ; pages++ {
		b := &bundle{t, db, h}
		a := b.do("GET", "/api/v1/actions?limit=500&after="+after, "")
		list, _ := a.json["actions"].([]any)
		if a.status != 200 || len(a.text) > mostAnswer || len(list) == 0 || pages > 10 {
			t.Fatalf("page %d: %d, %d bytes, %d rows", pages, a.status, len(a.text), len(list))
		}
		for _, one := range list {
			seen[one.(map[string]any)["ref"].(string)] = true
		}
		if a.json["after"] == nil {
			break
		}
		after = a.json["after"].(string)
	}
	if len(seen) != len(db.actions) {
		t.Errorf("the pages had %d of %d actions", len(seen), len(db.actions))
	}
}
