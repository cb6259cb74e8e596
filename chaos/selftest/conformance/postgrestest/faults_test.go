package postgrestest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/testenv"
)

// proxy is a TCP proxy that can cut its connections when a client sends bytes: after they were forwarded (the
// reply is lost) or before (the request is).
type proxy struct {
	listener net.Listener
	upstream string
	over     chan struct{}

	mu    sync.Mutex
	when  []byte
	after bool
	cuts  int
	// turns counts the client's messages that follow a message of the server, which are the round trips.
	turns  int
	server bool
}

// cancelRequest is the beginning of the message by which the driver, after losing a connection, requests over
// another one that its statement be cancelled. A network that lost the first also loses the second.
var cancelRequest = []byte{0, 0, 0, 16, 4, 210, 22, 46}

// startProxy returns the address of a database behind a proxy.
func startProxy(t *testing.T, address string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, upstream: u.Host, over: make(chan struct{})}
	t.Cleanup(func() { l.Close(); close(p.over) })
	go p.acceptConnections()
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) acceptConnections() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.upstream)
		if err != nil {
			client.Close()
			continue
		}
		go func() { _, _ = io.Copy(io.MultiWriter(p, client), server); client.Close() }()
		go p.forwardRequests(client, server)
	}
}

func (p *proxy) forwardRequests(client, server net.Conn) {
	defer server.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.HasPrefix(buffer[:n], cancelRequest) {
			return
		}
		p.countTurn()
		cut, after := p.shouldCut(buffer[:n])
		if cut {
			// From here on no reply arrives.
			client.Close()
		}
		if !cut || after {
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if cut && after {
			// The server must finish the statement, which it would not do for a disconnected client.
			<-p.over
		}
		if cut {
			return
		}
	}
}

// Write receives the server's bytes.
func (p *proxy) Write(said []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = true
	return len(said), nil
}

func (p *proxy) countTurn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server {
		p.turns++
	}
	p.server = false
}

// roundTrips returns the number of round trips since the last call.
func (p *proxy) roundTrips() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.turns
	p.turns = 0
	return n
}

func (p *proxy) shouldCut(sent []byte) (cut, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.when == nil || !bytes.Contains(bytes.ToLower(sent), p.when) {
		return false, false
	}
	p.cuts++
	p.when = nil
	return true, p.after
}

// cutAt arms the proxy for the next message that contains a text.
func (p *proxy) cutAt(text string, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.when, p.after = []byte(text), after
}

// If a connection is lost at COMMIT, the outcome is unknown, whether or not the server got it. If
// it is lost before, nothing was applied.
func TestConnectionCutAtCommit(t *testing.T) {
	b := newFixture(t)
	p, address := startProxy(t, b.url)
	s, err := postgres.Open(b.ctx, address, postgres.Options{})
	b.must(err)
	t.Cleanup(s.Close)
	for _, c := range []struct {
		text    string
		after   bool
		want    error
		applied bool
	}{
		{"commit\x00", true, store.ErrUnknownOutcome, true},
		{"commit\x00", false, store.ErrUnknownOutcome, false},
		{"begin\x00", true, store.ErrUnavailable, false},
		{"begin\x00", false, store.ErrUnavailable, false},
	} {
		t.Run(fmt.Sprintf("%.5s cut after it was sent: %v", c.text, c.after), func(t *testing.T) {
			name := t.Name()
			p.cutAt(c.text, c.after)
			_, err := s.Register(b.ctx, store.Registration{Process: 1, Attempt: 1, Name: name, Runtimes: []string{"shell"}, Capacity: 1, Lease: lease})
			if !errors.Is(err, c.want) || errors.Is(err, store.ErrUnavailable) && errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("the error: %v", err)
			}
			var applied int
			count := func() bool {
				b.scanRow("select count(*) from worker where name = $1", []any{name}, &applied)
				return applied == 1
			}
			for range 100 {
				if count() == c.applied {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if (applied == 1) != c.applied {
				t.Errorf("applied: %d", applied)
			}
			// The pool continues with another connection.
			_, err = s.Workers(b.ctx, nil)
			b.must(err)
		})
	}
}

// On a slow path, a lease would be lost if its renewal took a round trip for each statement,
// especially on a new connection: every attempt would end before its last statement, and the next
// would begin with another connection.
func TestHeartbeatTakesOneRoundTrip(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key := b.runningExecution(w)
	p, address := startProxy(t, b.url)
	s, err := postgres.Open(b.ctx, address, postgres.Options{MaxConns: 1, Now: b.readClock})
	b.must(err)
	t.Cleanup(s.Close)
	p.roundTrips()
	for i, want := range []int{2, 1, 1} { // the first one prepares the statements
		b.advanceClock(time.Second)
		reply, err := s.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: uint64(i + 10), Lease: lease, ConsumerAlive: true, Held: []execution.Key{key}})
		b.must(err)
		if got := p.roundTrips(); got != want || len(reply.Lost) > 0 {
			t.Errorf("heartbeat %d took %d round trips, want %d; lost %v", i+1, got, want, reply.Lost)
		}
	}
	rows, err := b.Workers(b.ctx, nil)
	b.must(err)
	if rows[0].Beat != 12 || rows[0].LeaseOverFor != -lease {
		t.Errorf("after the heartbeats: %+v", rows[0])
	}
}

// A statement whose reply is lost was applied, and the caller learns that it can't know.
func TestReplyLost(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key := b.runningExecution(w)
	p, address := startProxy(t, b.url)
	s, err := postgres.Open(b.ctx, address, postgres.Options{MaxConns: 1})
	b.must(err)
	t.Cleanup(s.Close)
	// Once beforehand, so that the statement is prepared and a single message executes it.
	_, err = s.Finish(b.ctx, w, []store.Finish{{Key: execution.Key{ID: 999}, To: execution.Completed}})
	b.must(err)
	p.cutAt("completed", true)
	f := []store.Finish{{Key: key, To: execution.Completed}}
	if _, err := s.Finish(b.ctx, w, f); !errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the error: %v", err)
	}
	// A caller that retries finds the current row, and recognises its own write.
	for range 100 {
		if b.readRow(key.ID).Status == execution.Completed {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	out, err := s.Finish(b.ctx, w, f)
	b.must(err)
	if out[0].Applied || out[0].Row.Status != execution.Completed || out[0].Row.Epoch != key.Epoch {
		t.Errorf("on the retry: %+v", out[0])
	}
}

func TestUnavailable(t *testing.T) {
	b := newFixture(t)
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	u, err := url.Parse(b.url)
	b.must(err)
	u.Host = refusing.Addr().String()
	refusing.Close()
	if _, err := postgres.Open(b.ctx, u.String(), postgres.Options{Migrate: true}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a database that is not there: %v", err)
	}
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := b.Workers(over, nil); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("a call after its deadline: %v", err)
	}

	// A lock that is not granted in time, and a statement that takes too long.
	w := b.activeWorker("w")
	key := b.runningExecution(w)
	for name, o := range map[string]postgres.Options{
		"lock":      {LockTimeout: 20 * time.Millisecond},
		"statement": {StatementTimeout: 500 * time.Millisecond, LockTimeout: time.Minute}, // opening the store is a statement, too
	} {
		impatient := b.openWithin(o)
		tx, err := b.conn.Begin(b.ctx)
		b.must(err)
		_, err = tx.Exec(b.ctx, "select from execution_work w join execution_record r on r.id = w.id where w.id = $1 for update", int64(key.ID))
		b.must(err)
		_, err = impatient.Finish(b.ctx, w, []store.Finish{{Key: key, To: execution.Completed}})
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("%s timeout: %v", name, err)
		}
		b.must(tx.Rollback(b.ctx))
	}

	// A database that accepts no writes at present.
	readOnly := b.openStore(postgres.Options{})
	b.execSQL(fmt.Sprintf("alter database %s set default_transaction_read_only = on", pgx.Identifier{b.conn.Config().Database}.Sanitize()))
	second := b.openStore(postgres.Options{})
	for name, s := range map[string]*postgres.Store{"statement": second} {
		if _, err := s.Finish(b.ctx, w, []store.Finish{{Key: key, To: execution.Completed}}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s on a read-only database: %v", name, err)
		}
	}
	if out, err := readOnly.Finish(b.ctx, w, []store.Finish{{Key: key, To: execution.Completed}}); err != nil || !out[0].Applied {
		t.Errorf("a session from before: %+v, %v", out, err)
	}
}

// openWithin opens a store whose statements have little time, so that opening it may take several attempts.
func (fi *fixture) openWithin(o postgres.Options) *postgres.Store {
	fi.Helper()
	for end := time.Now().Add(testenv.Patience()); ; {
		s, err := postgres.Open(fi.ctx, fi.url, o)
		if err == nil {
			fi.Cleanup(s.Close)
			return s
		}
		if time.Now().After(end) {
			fi.Fatal(err)
		}
	}
}

// endsInALock returns a context that ends when another call in this database begins to wait for a
// lock. The backend of a call that has ended may still wait.
func (fi *fixture) endsInALock() (context.Context, context.CancelFunc) {
	fi.Helper()
	const waiting = "select coalesce(array_agg(pid), '{}') from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() and pid <> all($1)"
	looker, err := pgx.Connect(fi.ctx, fi.url)
	fi.must(err)
	var before []int32
	fi.must(looker.QueryRow(fi.ctx, waiting, []int32{}).Scan(&before))
	ctx, cancel := context.WithCancel(fi.ctx)
	go func() {
		defer cancel()
		defer looker.Close(context.WithoutCancel(ctx))
		for now := []int32(nil); len(now) == 0; {
			if err := looker.QueryRow(ctx, waiting, before).Scan(&now); err != nil {
				return // the test has ended
			}
		}
	}()
	return ctx, cancel
}

// A call whose context ends while the server works leaves the outcome unknown.
func TestDeadlineDuringCall(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key := b.runningExecution(w)
	tx, err := b.conn.Begin(b.ctx)
	b.must(err)
	_, err = tx.Exec(b.ctx, "select from execution_work w join execution_record r on r.id = w.id where w.id = $1 for update", int64(key.ID))
	b.must(err)
	ctx, cancel := b.endsInALock()
	defer cancel()
	if _, err := b.Store.Finish(ctx, w, []store.Finish{{Key: key, To: execution.Completed}}); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("a batched call: %v", err)
	}
	again, cancel := b.endsInALock()
	defer cancel()
	_, err = b.Orchestrate(again, []store.Orchestration{{ID: key.ID}})
	if !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("a call of its own: %v", err)
	}
	b.must(tx.Rollback(b.ctx))
}
