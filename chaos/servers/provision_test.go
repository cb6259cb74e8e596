package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/testenv"
)

// instead, if set, runs in this process instead of the tests.
var instead = func() {}

func TestMain(m *testing.M) {
	instead()
	MainAlone(m)
}

// within returns a context that limits how long a test waits. The limit is for hangs, not for busy machines,
// on which a node has taken 27 s to start.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func query[T any](t *testing.T, address, sql string) T {
	t.Helper()
	ctx := within(t)
	conn, err := pgx.Connect(ctx, address)
	check(t, err)
	defer conn.Close(ctx)
	var v T
	check(t, conn.QueryRow(ctx, sql).Scan(&v))
	return v
}

func execute(t *testing.T, address, sql string) {
	t.Helper()
	ctx := within(t)
	conn, err := pgx.Connect(ctx, address)
	check(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	check(t, err)
}

// ownTemp gives the test its own temporary directory, so that its sweeps and other processes' sweeps don't
// interfere. The servers' users can traverse it, unlike t.TempDir's.
func ownTemp(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "provision-test-*")
	check(t, err)
	check(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
}

// publish declares a durable queue and publishes a persistent message to it, with a confirm.
func publish(t *testing.T, address, queue, text string) {
	t.Helper()
	conn, err := amqp.Dial(address)
	check(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	check(t, err)
	check(t, ch.Confirm(false))
	_, err = ch.QueueDeclare(queue, true, false, false, false, nil)
	check(t, err)
	dc, err := ch.PublishWithDeferredConfirm("", queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(text)})
	check(t, err)
	if ok, err := dc.WaitContext(within(t)); !ok || err != nil {
		t.Fatalf("not confirmed: %v", err)
	}
}

// take returns the first message, or an error if the queue or the message is missing.
func take(address, queue string) (string, error) {
	conn, err := amqp.Dial(address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return "", err
	}
	d, ok, err := ch.Get(queue, true)
	if err == nil && !ok {
		err = errors.New("the queue is empty")
	}
	return string(d.Body), err
}

func TestDatabasesAreSeparate(t *testing.T) {
	a, b := Database(t), Database(t)
	execute(t, a.URL, "CREATE TABLE only_a (n int)")
	if n := query[int](t, a.URL, "SELECT count(*) FROM pg_tables WHERE tablename = 'only_a'"); n != 1 {
		t.Fatalf("table in a: %d", n)
	}
	if n := query[int](t, b.URL, "SELECT count(*) FROM pg_tables WHERE tablename = 'only_a'"); n != 0 {
		t.Fatal("b has a's table")
	}
	for setting, want := range map[string]string{"fsync": "on", "max_connections": "400", "listen_addresses": "127.0.0.1"} {
		if got := query[string](t, a.URL, "SELECT current_setting('"+setting+"')"); a.Server.Private() && got != want {
			t.Errorf("%s = %s, want %s", setting, got, want)
		}
	}
}

func TestDatabaseIsDroppedWhileConnected(t *testing.T) {
	server := Database(t)
	var gone *DB
	t.Run("inner", func(t *testing.T) {
		gone = Database(t)
		conn, err := pgx.Connect(context.Background(), gone.URL)
		check(t, err)
		check(t, conn.Ping(context.Background()))
		// Left open on purpose.
	})
	if n := query[int](t, server.URL, "SELECT count(*) FROM pg_database WHERE datname = '"+gone.Name+"'"); n != 0 {
		t.Fatal("still there after its test")
	}
}

func TestVhostsAreSeparate(t *testing.T) {
	seen := map[string]bool{}
	var all []*MQ
	for range vhostBatch + 2 { // more than one refill of virtual hosts provides
		mq := Broker(t)
		if seen[mq.Vhost+mq.Prefix] {
			t.Fatalf("%s given out twice", mq.Vhost)
		}
		seen[mq.Vhost+mq.Prefix] = true
		all = append(all, mq)
	}
	first, last := all[0], all[len(all)-1]
	publish(t, first.URL, first.Prefix+"q", "hello")
	if _, err := take(last.URL, last.Prefix+"q"); err == nil {
		t.Fatal("another virtual host has the queue")
	}
	if got, err := take(first.URL, first.Prefix+"q"); got != "hello" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestRefillDeletesDisposedVhosts(t *testing.T) {
	m := Broker(t).Server
	if !m.Private() {
		t.Skip("the node was given: it deletes at once")
	}
	ctx := within(t)
	mq, err := m.CreateVhost(ctx)
	check(t, err)
	check(t, mq.Drop(ctx))
	for m.disposed != nil {
		_, err := m.CreateVhost(ctx)
		check(t, err)
	}
	out, err := m.Ctl(ctx, "list_vhosts")
	check(t, err)
	if strings.Contains(out, mq.Vhost) {
		t.Fatalf("%s still listed:\n%s", mq.Vhost, out)
	}
}

// All tests that stop and kill servers share one environment, because a start takes seconds.
func TestServerLifecycle(t *testing.T) {
	ownTemp(t)
	set := Own(t, Options{Postgres: true, RabbitMQ: true, Management: true})
	t.Run("postgres", func(t *testing.T) { postgresLife(t, set.Postgres) })
	t.Run("rabbitmq", func(t *testing.T) { rabbitLife(t, set.RabbitMQ) })
	t.Run("given", func(t *testing.T) { givenServers(t, set) })
	began := time.Now()
	check(t, set.Down())
	t.Logf("down in %v", time.Since(began))
	if left := workDirs(t); len(left) > 0 {
		t.Fatalf("left behind: %q", left)
	}
}

func workDirs(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "*"+dirPrefix+"*"))
	check(t, err)
	return found
}

func postgresLife(t *testing.T, p *Postgres) {
	ctx := within(t)
	execute(t, p.URL, "CREATE TABLE kept AS SELECT 42 AS n")
	if err := p.Start(ctx); err == nil {
		t.Fatal("started twice")
	}
	stops := map[string]func() error{"stop": p.Stop, "kill": p.Kill, "kill again": p.Kill}
	for name, stop := range stops {
		check(t, stop())
		if conn, err := pgx.Connect(ctx, p.URL); err == nil {
			_ = conn.Close(ctx)
			t.Fatalf("%s: still answers", name)
		}
		if p.Running() {
			t.Fatalf("%s: still running", name)
		}
		began := time.Now()
		check(t, p.Start(ctx))
		t.Logf("start after %s: %v", name, time.Since(began))
		if n := query[int](t, p.URL, "SELECT n FROM kept"); n != 42 {
			t.Fatalf("%s: data lost", name)
		}
	}
	if log, err := os.ReadFile(p.Log()); err != nil || !strings.Contains(string(log), "database system was not properly shut down") {
		t.Errorf("the log has no recovery: %v", err)
	}

	conn, err := pgx.Connect(ctx, p.URL)
	check(t, err)
	defer conn.Close(ctx)
	// An open connection's backend has its own process group, which must be frozen too.
	silentWhilePaused(t, &p.instance, func() error { return conn.Ping(ctx) })
	check(t, p.Pause())
	check(t, p.Stop()) // even while it is paused
	check(t, p.Start(ctx))
}

// silentWhilePaused pauses a server and checks that it answers a request only after it is resumed.
func silentWhilePaused(t *testing.T, server *instance, ask func() error) {
	t.Helper()
	check(t, server.Pause())
	answered := make(chan error, 1)
	go func() { answered <- ask() }()
	select {
	case err := <-answered:
		t.Fatalf("answered while paused: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	check(t, server.Resume())
	check(t, <-answered)
}

func rabbitLife(t *testing.T, m *RabbitMQ) {
	ctx := within(t)
	for name, stop := range map[string]func() error{"stop": m.Stop, "kill": m.Kill} {
		if name == "stop" && !testenv.All() {
			continue // TestKeptDirectoryRestoresDataAndAddresses stops and restarts a node
		}
		publish(t, m.URL, "kept", name)
		began := time.Now()
		check(t, stop())
		t.Logf("%s: %v", name, time.Since(began))
		if conn, err := amqp.Dial(m.URL); err == nil {
			_ = conn.Close()
			t.Fatalf("%s: still answers", name)
		}
		began = time.Now()
		check(t, m.Start(ctx))
		t.Logf("start after %s: %v", name, time.Since(began))
		// A killed node may lose recent declarations, because it writes its list of queues with a delay. So
		// after a kill only a working node is required.
		if name == "kill" {
			publish(t, m.URL, "kept afresh", name)
			continue
		}
		if got, err := take(m.URL, "kept"); got != name || err != nil {
			t.Fatalf("after %s: %q, %v", name, got, err)
		}
	}
	conn, err := amqp.Dial(m.URL)
	check(t, err)
	defer conn.Close()
	silentWhilePaused(t, &m.instance, func() error { _, err := conn.Channel(); return err })
	if out, err := m.Ctl(ctx, "list_vhosts"); err != nil || !strings.Contains(out, "handoff_") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := m.Ctl(ctx, "no_such_command"); err == nil {
		t.Error("a failed rabbitmqctl reports no error")
	}
	if text := logTail(m.Log()); text == "" {
		t.Error("the log is empty")
	}
}

// givenServers tests given servers, for which it uses the addresses of the private ones.
func givenServers(t *testing.T, private *Set) {
	ctx := within(t)
	t.Setenv(AddressPostgres, private.Postgres.URL)
	t.Setenv(AddressRabbitMQ, private.RabbitMQ.URL)
	t.Setenv("DATABASE_URL", "postgres://nobody@127.0.0.1:1/never")

	var log strings.Builder
	t.Setenv(AddressManagement, private.RabbitMQ.Management)
	given, err := Up(ctx, Options{Postgres: true, RabbitMQ: true, Log: &log})
	check(t, err)
	if given.dir != nil || given.RabbitMQ.Prefix != "" {
		t.Errorf("made %v, prefix %q", given.dir, given.RabbitMQ.Prefix)
	}
	db := query[string](t, given.Postgres.URL, "SELECT current_database()")
	if given.Postgres.URL == private.Postgres.URL || !strings.HasPrefix(db, "handoff_") {
		t.Errorf("works in %s", db)
	}
	publish(t, given.RabbitMQ.URL, "q", "hello")
	if _, err := take(private.RabbitMQ.URL, "q"); err == nil {
		t.Error("works in the given virtual host")
	}
	for name, err := range map[string]error{
		"Stop": given.Postgres.Stop(), "Kill": given.Postgres.Kill(), "Pause": given.Postgres.Pause(), "Start": given.Postgres.Start(ctx),
		"mq Stop": given.RabbitMQ.Stop(), "mq Kill": given.RabbitMQ.Kill(), "mq Pause": given.RabbitMQ.Pause(), "mq Start": given.RabbitMQ.Start(ctx),
	} {
		if !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s of a given server: %v", name, err)
		}
	}
	address := given.RabbitMQ.URL
	check(t, given.Down())
	if n := query[int](t, private.Postgres.URL, "SELECT count(*) FROM pg_database WHERE datname = '"+db+"'"); n != 0 {
		t.Error("its database was not dropped")
	}
	if conn, err := amqp.Dial(address); err == nil {
		_ = conn.Close()
		t.Error("its virtual host was not deleted")
	}

	// Without the management API there is no virtual host but a prefix, and the log reports that.
	if !private.RabbitMQ.Private() {
		return
	}
	t.Setenv(AddressManagement, "")
	given, err = Up(ctx, Options{RabbitMQ: true, Log: &log})
	check(t, err)
	defer func() { check(t, given.Down()) }()
	mq, err := given.RabbitMQ.CreateVhost(ctx)
	check(t, err)
	if given.RabbitMQ.Prefix == "" || mq.Prefix == "" || mq.Prefix == given.RabbitMQ.Prefix || !strings.Contains(log.String(), given.RabbitMQ.Prefix) {
		t.Errorf("prefixes %q and %q; log:\n%s", given.RabbitMQ.Prefix, mq.Prefix, log.String())
	}
	t.Setenv(AddressManagement, "http://127.0.0.1:1")
	if _, err := Up(ctx, Options{RabbitMQ: true}); !errors.Is(err, ErrEnvironment) || !strings.Contains(fmt.Sprint(err), AddressManagement) {
		t.Errorf("a named management API that does not exist: %v", err)
	}
}

// Another server takes the port between its choice and its use, and even answers there.
func TestTakenPortIsReplaced(t *testing.T) {
	ownTemp(t)
	other := Own(t, Options{Postgres: true}).Postgres
	cfg, err := pgx.ParseConfig(other.URL)
	check(t, err)
	calls := 0
	pickPorts = func(n int) ([]int, error) {
		if calls++; calls == 1 {
			return []int{int(cfg.Port)}, nil
		}
		return FreePorts(n)
	}
	defer func() { pickPorts = FreePorts }()
	p := Own(t, Options{Postgres: true}).Postgres
	if calls != 2 || p.data == other.data {
		t.Fatalf("%d attempts, data in %s", calls, p.data)
	}
	if got := query[string](t, p.URL, "SHOW data_directory"); got != p.data {
		t.Fatalf("talks to %s", got)
	}
}

func TestUntraversableTemporaryDirectoryIsSkipped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs servers as other users")
	}
	ownTemp(t)
	open := os.Getenv("TMPDIR")
	if base, err := baseDir(); err != nil || base != open {
		t.Errorf("chose %s, %v", base, err)
	}
	below := filepath.Join(open, "below")
	check(t, os.Mkdir(below, 0o755))
	check(t, os.Chmod(open, 0o700))
	t.Setenv("TMPDIR", below)
	if base, err := baseDir(); err != nil || base != "/tmp" {
		t.Errorf("chose %s, %v", base, err)
	}
}
