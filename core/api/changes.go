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

// streams has the settings of the change streams, and the places that limit their number.
type streams struct {
	// poll is the pause between two queries of a stream without new changes. Notifications are not used,
	// because PostgreSQL serializes the commits of transactions that notify.
	poll time.Duration
	// keepAlive is the longest time without data; proxies close a connection that is idle for a minute.
	keepAlive time.Duration
	// write is how long a client may take to accept a write.
	write time.Duration
	// page is how many changes one query reads.
	page int
	// open has a place for each allowed stream. of counts the streams of each client.
	open chan struct{}
	of   *shareCounter
}

func newStreams() streams {
	return streams{poll: 500 * time.Millisecond, keepAlive: 15 * time.Second, write: streamWrite, page: streamPage, open: make(chan struct{}, maxStreams), of: new(shareCounter)}
}

// changeView is an event of the stream: a line of the audit trail, and its execution.
type changeView struct {
	Execution execution.ID `json:"execution"`
	ActionRef *string      `json:"action_ref"`
	transitionView
}

// streamChanges serves GET /api/v1/changes?after=POSITION&execution=ID&action_ref=R&to=STATUS: the changes of
// all executions as server-sent events, as they are committed. The id of an event is its position. To resume,
// a client sends the last id that it has received to any executor, in the header Last-Event-ID or as the
// parameter after.
func (s *Server) streamChanges(w http.ResponseWriter, r *http.Request) *Problem {
	var q store.ChangeQuery
	given := false
	after := func(text string) (err error) { q.After, err = store.ParsePosition(text); given = true; return err }
	problem := readQuery(r, []parameter{
		{"after", after},
		{"execution", readID(&q.Execution)},
		{"action_ref", actionName(&q.ActionRef)},
		{"to", func(text string) (err error) { q.To, err = execution.ParseStatus(text); return err }},
	})
	// When a browser reconnects, it repeats the original URL and sends its last position in the header.
	if last := r.Header.Get("Last-Event-ID"); problem == nil && last != "" {
		if err := after(last); err != nil {
			problem = badRequest("The header Last-Event-ID can't be used.", FieldError{Field: "Last-Event-ID", Detail: err.Error()})
		}
	}
	if problem != nil {
		return problem
	}
	leave, problem := s.takeStreamPlace(r)
	if problem != nil {
		return problem
	}
	defer leave()
	now, err := s.readChanges(r.Context(), store.ChangeQuery{})
	switch {
	case err != nil:
		return s.storeProblem(r, err, harmless)
	case now.End.Before(q.After):
		return &Problem{
			Type: typePositionGone, Title: "The position is not of this database", Status: http.StatusGone,
			Detail: fmt.Sprintf("%v lies behind everything that this database has: it is another server, or one that was restored. Begin anew, with after=0 or without after.", q.After),
		}
	case changesDeleted(q.After, &now):
		return changesGone(q.After, &now)
	case !given:
		q.After = now.Next
	}
	return s.sendChanges(w, r, q)
}

// changesDeleted reports whether changes after a position are deleted. The zero position is always valid:
// from there a client gets all changes that are left.
func changesDeleted(after store.Position, page *store.ChangePage) bool {
	return after != store.Position{} && after.Before(page.Gone)
}

// changesGone refuses a position after which changes are deleted.
func changesGone(after store.Position, page *store.ChangePage) *Problem {
	return &Problem{
		Type: typePositionGone, Title: "Changes behind the position are deleted", Status: http.StatusGone,
		Detail: fmt.Sprintf("%v lies before %v: the changes in between, up to %s, are older than retention.transitions and deleted. Read the executions themselves, and begin anew: with after=0 at the oldest change that is left, or without after at the end.",
			after, page.Gone, page.GoneAt.UTC().Format(time.RFC3339)),
	}
}

// takeStreamPlace takes a place for a stream and a share for its client. It returns a function that releases
// both, or the refusal.
func (s *Server) takeStreamPlace(r *http.Request) (leave func(), problem *Problem) {
	refuse := func(format string, args ...any) *Problem {
		return serviceUnavailable("Too many streams are open", fmt.Sprintf(format, args...), 5)
	}
	share, ok := s.streams.of.takeShare(r, maxStreamsOfClient)
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

// connectionKey is the context key of a request's connection.
type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// boundWriteBuffer bounds the kernel's buffer of unread data. Otherwise it is several megabytes, and a client
// that has stopped reading is detected only when it is full.
func boundWriteBuffer(ctx context.Context) {
	c, _ := ctx.Value(connectionKey{}).(net.Conn)
	if under, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = under.NetConn()
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(streamBuffer)
	}
}

// readChanges queries the database, within StatementTimeout.
func (s *Server) readChanges(ctx context.Context, q store.ChangeQuery) (store.ChangePage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Config.Executor.StatementTimeout)
	defer cancel()
	return s.Store.Changes(ctx, q)
}

// sendChanges sends changes until the client disconnects or the server stops.
func (s *Server) sendChanges(w http.ResponseWriter, r *http.Request, q store.ChangeQuery) *Problem {
	out := &eventWriter{w: w, connection: http.NewResponseController(w), write: s.streams.write, view: s.viewTransition}
	if err := out.extendDeadline(); err != nil {
		s.Log.LogAttrs(r.Context(), slog.LevelError, "a stream can't be kept open on this connection", slog.Any("error", err))
		return internalError()
	}
	boundWriteBuffer(r.Context())
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer events
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	stopping, _ := r.Context().Value(stoppingKey{}).(<-chan struct{})
	q.Limit = s.streams.page
	// Send the starting position at once, so that the client can resume from there even before the first
	// change.
	out.writePosition(q.After)
	var end store.Position
	since := time.Now()
	for {
		page, err := s.readChanges(r.Context(), q)
		if out.extendDeadline() != nil {
			return nil
		}
		switch {
		case err == nil && changesDeleted(q.After, &page):
			// The changes were deleted while this client was reading: it gets an event now, and a refusal
			// when it reconnects.
			out.writeGone(changesGone(q.After, &page))
			_ = out.flush() // the stream ends either way
			return nil
		case err == nil:
			for i := range page.Changes {
				out.writeChange(&page.Changes[i])
			}
			q.After = page.Next
			if !page.Held || page.End != end {
				end, since = page.End, time.Now()
			}
			if time.Since(out.lastWrite) >= s.streams.keepAlive {
				out.writePosition(q.After)
				// If no open transaction delays the stream, a new position without events means that nothing
				// has happened.
				if held := time.Since(since); held >= s.streams.keepAlive {
					out.writeComment(fmt.Sprintf("held back for %v by a transaction that is open on the database server, in whatever database: what has happened since comes when it ends", held.Round(time.Second)))
				}
			}
		case isTransient(err):
			s.Log.LogAttrs(r.Context(), slog.LevelWarn, "a stream of changes waits for the database", slog.Any("error", err))
			out.writeComment("the database is away")
		default:
			s.Log.LogAttrs(r.Context(), slog.LevelError, "a stream of changes ended", slog.Any("error", err))
			return nil
		}
		if out.flush() != nil {
			return nil
		}
		pause := s.streams.poll
		if page.More {
			pause = 0
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-stopping:
			return nil
		case <-time.After(pause):
		}
	}
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w          io.Writer
	connection *http.ResponseController
	// write is how long the client may take for the data between two flushes.
	write time.Duration
	view  func(*store.Transition) transitionView
	// lastWrite is the time of the last write. failed is the error that ended writing.
	lastWrite time.Time
	failed    error
}

// extendDeadline sets a deadline for the next data, in place of the server's limit for a whole response.
func (e *eventWriter) extendDeadline() error {
	return e.connection.SetWriteDeadline(time.Now().Add(e.write))
}

func (e *eventWriter) writeFormat(format string, args ...any) {
	if e.failed == nil {
		_, e.failed = fmt.Fprintf(e.w, format, args...)
		e.lastWrite = time.Now()
	}
}

// writePosition advances the client's last event id without an event.
func (e *eventWriter) writePosition(p store.Position) { e.writeFormat("id: %v\n\n", p) }

func (e *eventWriter) writeComment(text string) { e.writeFormat(": %s\n\n", text) }

// writeGone notifies a client that changes after its position are deleted. The position does not change.
func (e *eventWriter) writeGone(p *Problem) { e.writeEvent("event: gone", p) }

func (e *eventWriter) writeChange(c *store.Change) {
	e.writeEvent(fmt.Sprintf("id: %v\nevent: transition", c.Position), changeView{c.Execution, textOrNil(c.ActionRef), e.view(&c.Transition)})
}

func (e *eventWriter) writeEvent(head string, value any) {
	data, err := json.Marshal(value)
	if err != nil && e.failed == nil {
		e.failed = err
	}
	e.writeFormat("%s\ndata: %s\n\n", head, data)
}

// flush sends the written data.
func (e *eventWriter) flush() error {
	if e.failed == nil {
		e.failed = e.connection.Flush()
	}
	return e.failed
}
