package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/testenv"
)

const changesPath = "/api/v1/changes"

// streamServer is a server of changes with real connections.
type streamServer struct {
	*fakeStore
	t      *testing.T
	server *Server
	url    string
}

func newStreaming(t *testing.T, change func(*streams)) *streamServer {
	t.Helper()
	return newLimited(t, 0, change)
}

// newLimited returns a server with this read and write timeout; 0 means no timeout. A short timeout also
// fails requests that a busy machine delays.
func newLimited(t *testing.T, limit time.Duration, change func(*streams)) *streamServer {
	t.Helper()
	db := &fakeStore{}
	s := NewServer(Options{Store: db, Config: config.Default(config.Hardened), Log: slog.New(slog.DiscardHandler)})
	s.streams.poll, s.streams.keepAlive, s.streams.page = time.Millisecond, time.Minute, 2
	if change != nil {
		change(&s.streams)
	}
	web := httptest.NewUnstartedServer(s.Handler())
	web.Config.ReadTimeout, web.Config.WriteTimeout = limit, limit
	web.Config.ConnContext = withConnection
	web.Start()
	t.Cleanup(web.Close)
	return &streamServer{db, t, s, web.URL}
}

// followingClient is a client that follows the stream.
type followingClient struct {
	t     *testing.T
	body  *bufio.Reader
	close func()
	// last is the last event id, as a browser stores it.
	last string
}

func (s *streamServer) open(query, last string) (*http.Response, func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testenv.Patience())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+changesPath+query, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, func() {
		cancel()
		_ = answer.Body.Close()
	}
}

func (s *streamServer) follow(query, last string) *followingClient {
	s.t.Helper()
	answer, end := s.open(query, last)
	s.t.Cleanup(end)
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		s.t.Fatalf("%s: status %d, type %q", query, answer.StatusCode, kind)
	}
	return &followingClient{t: s.t, body: bufio.NewReader(answer.Body), close: end}
}

// block reads up to the next empty line and stores the id as a browser does.
func (f *followingClient) block() (fields map[string]string, err error) {
	fields = make(map[string]string)
	for {
		line, err := f.body.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line == "\n" {
			if id, ok := fields["id"]; ok {
				f.last = id
			}
			return fields, nil
		}
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		fields[key] = value
	}
}

// next returns the next event as "EXECUTION STATUS".
func (f *followingClient) next() string {
	f.t.Helper()
	for {
		fields, err := f.block()
		if err != nil {
			f.t.Fatal(err)
		}
		if fields["data"] == "" {
			continue
		}
		expectDocumented(f.t, &exchange{
			method: http.MethodGet, target: changesPath, status: http.StatusOK, got: http.Header{"Content-Type": {"text/event-stream"}}, answer: []byte("data: " + fields["data"] + "\n"),
		})
		var c changeView
		if err := json.Unmarshal([]byte(fields["data"]), &c); err != nil || fields["event"] != "transition" {
			f.t.Fatalf("%v: %v", fields, err)
		}
		return fmt.Sprintf("%d %s", c.Execution, c.To)
	}
}

func (f *followingClient) expect(want ...string) {
	f.t.Helper()
	for _, w := range want {
		if got := f.next(); got != w {
			f.t.Fatalf("the next change is %q, want %q", got, w)
		}
	}
}

func TestReconnectRepeatsNoChanges(t *testing.T) {
	s := newStreaming(t, nil)
	for id := range execution.ID(5) {
		s.changed(id+1, "a", execution.Requested)
	}
	first := s.follow("?after=0", "")
	first.expect("1 requested", "2 requested", "3 requested")
	first.close()

	second := s.follow("?after=0", first.last)
	second.expect("4 requested", "5 requested")
	s.changed(4, "a", execution.Scheduling)
	second.expect("4 scheduling")
	second.close()

	third := s.follow("?after="+second.last, "")
	s.changed(5, "a", execution.Cancelled)
	third.expect("5 cancelled")
}

func TestChangesStartNowAndAreFiltered(t *testing.T) {
	s := newStreaming(t, nil)
	s.changed(1, "a", execution.Requested)
	all := s.follow("", "")
	one, action, ended := s.follow("?execution=3", ""), s.follow("?action_ref=b", ""), s.follow("?to=completed", "")
	s.changed(2, "a", execution.Requested)
	s.changed(3, "b", execution.Requested)
	s.changed(4, "b", execution.Completed)
	s.changed(3, "b", execution.Completed)
	all.expect("2 requested", "3 requested", "4 completed", "3 completed")
	one.expect("3 requested", "3 completed")
	action.expect("3 requested", "4 completed", "3 completed")
	ended.expect("4 completed", "3 completed")
}

// The position of a client that selects few changes must advance, too. Otherwise it would rescan all changes
// when it reconnects.
func TestIdleStreamAdvancesPosition(t *testing.T) {
	s := newStreaming(t, func(s *streams) { s.keepAlive = time.Millisecond })
	f := s.follow("?execution=9&after=0", "")
	s.changed(1, "a", execution.Requested)
	for f.last != (store.Position{Transaction: 2}).String() {
		if _, err := f.block(); err != nil {
			t.Fatal(err)
		}
	}
}

// A stream that is held back by an open transaction reports it, so that a client does not take it for an idle
// one.
func TestHeldStreamReportsDelay(t *testing.T) {
	s := newStreaming(t, func(s *streams) { s.keepAlive = time.Millisecond })
	f := s.follow("?after=0", "")
	for range 3 {
		fields, err := f.block()
		if err != nil || fields[""] != "" {
			t.Fatalf("nothing holds the stream back, but its comment is %q (%v)", fields[""], err)
		}
	}
	s.mu.Lock()
	s.held = true
	s.mu.Unlock()
	for {
		fields, err := f.block()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(fields[""], "held back for ") {
			break
		}
	}
	s.mu.Lock()
	s.held = false
	s.mu.Unlock()
	s.changed(1, "a", execution.Requested)
	f.expect("1 requested")
}

func TestStreamOutlivesRequestTimeouts(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	s := newLimited(t, limit, func(s *streams) { s.keepAlive, s.write = 5*time.Millisecond, 2*limit })
	f := s.follow("", "")
	for began := time.Now(); time.Since(began) < 5*limit/2; {
		if _, err := f.block(); err != nil {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
	}
	s.changed(1, "a", execution.Requested)
	f.expect("1 requested")
}

func TestStreamWaitsForTheDatabase(t *testing.T) {
	s := newStreaming(t, nil)
	s.fails = []error{store.ErrUnavailable}
	answer, end := s.open("", "")
	defer end()
	if answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while the database is away: %d", answer.StatusCode)
	}
	f := s.follow("", "")
	s.mu.Lock()
	s.fails = []error{store.ErrUnknownOutcome, context.DeadlineExceeded}
	s.mu.Unlock()
	for away := 0; away < 2; {
		fields, err := f.block()
		if err != nil {
			t.Fatal(err)
		}
		if fields[""] == "the database is away" {
			away++
		}
	}
	s.changed(1, "a", execution.Requested)
	f.expect("1 requested")

	s.mu.Lock()
	s.fails = []error{fmt.Errorf("no such column")}
	s.mu.Unlock()
	if _, err := f.block(); err != io.EOF { //nolint:errorlint // a clean end is exactly this error
		t.Errorf("the stream continues after a permanent error: %v", err)
	}
}

func TestInvalidStreamRequestsAreRefused(t *testing.T) {
	s := newStreaming(t, func(s *streams) { s.open = make(chan struct{}, 1) })
	for query, want := range map[string]int{
		"?after=x": 400, "?after=1": 400, "?after=01-1": 400, "?after=1--1": 400, "?to=faild": 400, "?execution=0": 400, "?action_ref=%00": 400,
		"?after=2-0": 410, "?after=1-1": 410, "?after=18446744073709551615-0": 410,
	} {
		answer, end := s.open(query, "")
		if answer.StatusCode != want || answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d, want %d", query, answer.StatusCode, want)
		}
		end()
	}
	answer, end := s.open("?after=0", "nonsense")
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != 400 || !strings.Contains(string(text), `"field":"Last-Event-ID"`) {
		t.Errorf("an invalid header: %d %s", answer.StatusCode, text)
	}
	end()

	f := s.follow("", "")
	answer, end = s.open("", "")
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("one stream too many: %d", answer.StatusCode)
	}
	end()
	f.close()
	s.server.streams.open <- struct{}{} // blocks unless the stream has released its place
}

// A client that stops reading is disconnected and releases its place.
func TestStalledClientIsDisconnected(t *testing.T) {
	s := newStreaming(t, func(s *streams) {
		if s.write > 5*time.Second {
			t.Errorf("clients that don't read keep their places for %v", s.write)
		}
		s.open, s.write, s.page = make(chan struct{}, 1), 50*time.Millisecond, 1000
	})
	ref := strings.Repeat("a", 1<<16)
	for id := range execution.ID(1000) {
		s.changed(id+1, ref, execution.Requested)
	}
	_, end := s.open("?after=0", "")
	defer end()
	s.server.streams.open <- struct{}{}
}

func TestStopEndsStreams(t *testing.T) {
	s := newStreaming(t, nil)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, listener, s.server.Handler(), slog.New(slog.DiscardHandler), time.Hour)
	}()
	s.url = "http://" + listener.Addr().String()
	f := s.follow("", "")
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	for err == nil {
		_, err = f.block()
	}
	if err != io.EOF { //nolint:errorlint // a clean end is exactly this error
		t.Errorf("the stream ended with %v", err)
	}
}

func TestStreamsPerAddressAreLimited(t *testing.T) {
	s := newStreaming(t, nil)
	for range maxStreamsOfClient {
		s.follow("", "")
	}
	answer, end := s.open("", "")
	defer end()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" || !strings.Contains(string(text), "Your address has 25 streams open") {
		t.Errorf("one stream too many from one address: %d %s", answer.StatusCode, text)
	}
	// Another address still gets places.
	r := httptest.NewRequest(http.MethodGet, changesPath, http.NoBody)
	r.RemoteAddr = "192.0.2.7:1"
	leave, problem := s.server.takeStreamPlace(r)
	if problem != nil {
		t.Fatalf("another address: %+v", problem)
	}
	leave()
}

func TestDeletedPositionIsRefused(t *testing.T) {
	s := newStreaming(t, nil)
	for id := range execution.ID(3) {
		s.changed(id+1, "a", execution.Requested)
	}
	positions := []string{s.changes[0].Position.String(), s.changes[1].Position.String()}
	s.purge(2)
	answer, end := s.open("?after="+positions[0], "")
	defer end()
	var p Problem
	if err := json.NewDecoder(answer.Body).Decode(&p); err != nil || answer.StatusCode != http.StatusGone || p.Type != typePositionGone || !strings.Contains(p.Detail, "retention.transitions") {
		t.Errorf("before deleted changes: status %d, %+v, %v", answer.StatusCode, p, err)
	}
	for _, after := range []string{positions[1], "0"} {
		s.follow("?after="+after, "").expect("3 requested")
	}
}

func TestStreamEndsWhenChangesAreDeleted(t *testing.T) {
	s := newStreaming(t, func(s *streams) { s.poll = 50 * time.Millisecond })
	s.changed(1, "a", execution.Requested)
	f := s.follow("?after=0", "")
	f.expect("1 requested")
	s.mu.Lock()
	s.gone = store.Position{Transaction: 90, ID: 1}
	s.mu.Unlock()
	for {
		fields, err := f.block()
		if err != nil {
			t.Fatalf("the stream ended without an event: %v", err)
		}
		if fields["event"] == "gone" {
			if !strings.Contains(fields["data"], typePositionGone) {
				t.Errorf("its data is %s", fields["data"])
			}
			break
		}
	}
	if _, err := f.block(); err == nil {
		t.Error("the stream continues")
	}
}
