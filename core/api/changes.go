package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// streams is how the streams of changes go on.
type streams struct {
	// poll is how long a stream that has told everything waits before it looks again. The database is asked, and
	// not a notification, because PostgreSQL makes writers that notify commit one after the other.
	poll time.Duration
	// keepAlive is the longest silence; proxies close what is silent for a minute.
	keepAlive time.Duration
	// write is how long a client may take to accept a write.
	write time.Duration
	// page is how many changes are looked at in one go.
	page int
	// open has a place for each stream that may be open, and of counts those of each client.
	open chan struct{}
	of   *shares
}

func newStreams() streams {
	return streams{poll: 500 * time.Millisecond, keepAlive: 15 * time.Second, write: streamWrite, page: streamPage, open: make(chan struct{}, maxStreams), of: new(shares)}
}

// changeView is an event of the stream: a line of the audit, and whose it is.
type changeView struct {
	Execution execution.ID `json:"execution"`
	ActionRef *string      `json:"action_ref"`
	transitionView
}

// streamChanges is GET /api/v1/changes?after=POSITION&execution=ID&action_ref=R&to=STATUS: the changes of all
// executions, as they are committed, as server-sent events. The id of an event is its position; a client that sends
// the last one it has seen, as header Last-Event-ID or as after, to this or to another executor, goes on behind it.
func (s *Server) streamChanges(w http.ResponseWriter, r *http.Request) {
	var q store.ChangeQuery
	given := false
	after := func(text string) (err error) { q.After, err = store.ParsePosition(text); given = true; return err }
	problem := readQuery(r, []parameter{
		{"after", after},
		{"execution", number64(&q.Execution)},
		{"action_ref", actionName(&q.ActionRef)},
		{"to", func(text string) (err error) { q.To, err = execution.ParseStatus(text); return err }},
	})
	// A browser repeats the address that it began with, and says in the header how far it came.
	if last := r.Header.Get("Last-Event-ID"); problem == nil && last != "" {
		if err := after(last); err != nil {
			problem = badRequest("The header Last-Event-ID can't be used.", FieldError{Field: "Last-Event-ID", Detail: err.Error()})
		}
	}
	if problem != nil {
		problem.write(w)
		return
	}
	leave, problem := s.place(r)
	if problem != nil {
		problem.write(w)
		return
	}
	defer leave()
	now, err := s.changes(r.Context(), store.ChangeQuery{})
	switch {
	case err != nil:
		s.storeProblem(r, err, harmless).write(w)
		return
	case now.End.Before(q.After):
		(&Problem{
			Type: typePositionGone, Title: "The position is not of this database", Status: http.StatusGone,
			Detail: fmt.Sprintf("%v lies behind everything that this database has: it is another server, or one that was restored. Begin anew, with after=0 or without after.", q.After),
		}).write(w)
		return
	case !given:
		q.After = now.Next
	}
	s.stream(w, r, q)
}

// place takes a place for a stream, for its client too. It returns what gives both back, or the refusal.
func (s *Server) place(r *http.Request) (leave func(), problem *Problem) {
	refuse := func(format string, args ...any) *Problem {
		return &Problem{
			Type: typeUnavailable, Title: "Too many streams are open", Status: http.StatusServiceUnavailable,
			Detail: fmt.Sprintf(format, args...), retryAfter: 5,
		}
	}
	share, ok := s.streams.of.take(r, maxStreamsOfClient)
	if !ok {
		return nil, refuse("Your address has %d streams open here, which is its share. Close one, or ask another executor.", maxStreamsOfClient)
	}
	select {
	case s.streams.open <- struct{}{}:
		return func() { <-s.streams.open; share() }, nil
	default:
		share()
		return nil, refuse("%d clients read the changes from here. Ask another executor, or later.", cap(s.streams.open))
	}
}

// connectionKey finds, in the context of a request, the connection that it came on.
type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// narrow bounds what the kernel takes for a client that does not read: without it that is several megabytes, and the
// client is only noticed when they are full.
func narrow(ctx context.Context) {
	c, _ := ctx.Value(connectionKey{}).(net.Conn)
	if under, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = under.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(streamBuffer)
	}
}

// changes asks the database, bounded like every call.
func (s *Server) changes(ctx context.Context, q store.ChangeQuery) (store.ChangePage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Config.Executor.StatementTimeout)
	defer cancel()
	return s.Store.Changes(ctx, q)
}

// stream tells changes until the client goes or the server is told to stop.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, q store.ChangeQuery) {
	out := &events{w: w, connection: http.NewResponseController(w), write: s.streams.write}
	if err := out.extend(); err != nil {
		s.Log.LogAttrs(r.Context(), slog.LevelError, "a stream can't be kept open on this connection", slog.Any("error", err))
		internal().write(w)
		return
	}
	narrow(r.Context())
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	stopping, _ := r.Context().Value(stoppingKey{}).(<-chan struct{})
	q.Limit = s.streams.page
	// Where it begins is told at once: the client can go on from there though nothing has happened yet.
	out.position(q.After)
	for {
		page, err := s.changes(r.Context(), q)
		if out.extend() != nil {
			return
		}
		switch {
		case err == nil:
			for i := range page.Changes {
				out.change(&page.Changes[i])
			}
			q.After = page.Next
			if time.Since(out.told) >= s.streams.keepAlive {
				out.position(q.After)
			}
		case passing(err):
			s.Log.LogAttrs(r.Context(), slog.LevelWarn, "a stream of changes waits for the database", slog.Any("error", err))
			out.comment("the database is away")
		default:
			s.Log.LogAttrs(r.Context(), slog.LevelError, "a stream of changes ended", slog.Any("error", err))
			return
		}
		if out.flush() != nil {
			return
		}
		pause := s.streams.poll
		if page.More {
			pause = 0
		}
		select {
		case <-r.Context().Done():
			return
		case <-stopping:
			return
		case <-time.After(pause):
		}
	}
}

// events writes server-sent events.
type events struct {
	w          io.Writer
	connection *http.ResponseController
	// write is how long the client may take for what is sent between two flushes.
	write time.Duration
	// told is when the last thing was written, failed what ended the writing.
	told   time.Time
	failed error
}

// extend gives what is sent next its time, in place of the server's limit for a whole answer.
func (e *events) extend() error { return e.connection.SetWriteDeadline(time.Now().Add(e.write)) }

func (e *events) print(format string, args ...any) {
	if e.failed == nil {
		_, e.failed = fmt.Fprintf(e.w, format, args...)
		e.told = time.Now()
	}
}

// position moves the client's last event id, and is no event.
func (e *events) position(p store.Position) { e.print("id: %v\n\n", p) }

func (e *events) comment(text string) { e.print(": %s\n\n", text) }

func (e *events) change(c *store.Change) {
	data, err := json.Marshal(changeView{c.Execution, name(c.ActionRef), viewTransition(&c.Transition)})
	if err != nil && e.failed == nil {
		e.failed = err
	}
	e.print("id: %v\nevent: transition\ndata: %s\n\n", c.Position, data)
}

// flush sends what was written.
func (e *events) flush() error {
	if e.failed == nil {
		e.failed = e.connection.Flush()
	}
	return e.failed
}
