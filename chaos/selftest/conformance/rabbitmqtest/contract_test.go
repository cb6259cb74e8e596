package rabbitmqtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/selftest/conformance"
	"handoff/chaos/selftest/conformance/brokertest"
	"handoff/chaos/servers"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/testenv"
	"handoff/sim/kernel"
	"handoff/sim/simbroker"
	"handoff/sim/simnet"
)

// The adapter and RabbitMQ keep the same contract as the model. The test has its own nodes, because it
// restarts, kills and alarms them: one for the cases, one for what outlasts a restart. Random commands
// disturb no other test, so they share a node. A node that was given by its address gets only the harmless
// cases. The test waits more than it computes, like the tests that run in parallel with it.
func TestContract(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	on := func(mq *servers.MQ, breakable bool) brokertest.WithSubject {
		is := nodeVersion(t, mq.URL)
		return func(t *testing.T, body func(s brokertest.Subject)) {
			t.Helper()
			s := (&rabbit{world: &world{t: t, mq: mq}, begin: begin}).newSubject()
			s.Version = is
			if !breakable {
				s.Restart, s.Kill, s.Alarm, s.Total, s.Suspend, s.ConsumerTimeout = nil, nil, nil, nil, nil, nil
			}
			body(s)
		}
	}
	steps := 600
	if testenv.All() {
		steps = 10_000
	}
	shared := servers.Broker(t)
	is := nodeVersion(t, shared.URL)
	found := conformance.Result{Server: "RabbitMQ", Version: is}
	var restarted, notRestarted int
	t.Run("promises", func(t *testing.T) {
		t.Run("cases", func(t *testing.T) {
			t.Parallel()
			mq, given := nodeFor(t)
			found.Cases, found.Skipped = brokertest.RunCases(t, on(mq, !given), 48)
		})
		t.Run("restarts", func(t *testing.T) {
			t.Parallel()
			mq, given := nodeFor(t)
			restarted, notRestarted = brokertest.RunRestarts(t, on(mq, !given))
		})
		t.Run("sequences", func(t *testing.T) {
			t.Parallel()
			// A sequence mostly waits, so many of them hardly disturb each other.
			found.Commands = brokertest.Sequences(t, modelSubject(is), on(shared, false), steps, 48)
		})
	})
	found.Cases, found.Skipped = found.Cases+restarted, found.Skipped+notRestarted
	t.Logf("%+v", found)
	if !t.Failed() {
		if err := conformance.Record(found); err != nil {
			t.Error(err)
		}
	}
}

// nodeFor returns a node that may be broken, or the given node.
func nodeFor(t *testing.T) (mq *servers.MQ, given bool) {
	t.Helper()
	if os.Getenv(servers.AddressRabbitMQ) != "" {
		return servers.Broker(t), true
	}
	mq, err := servers.Own(t, servers.Options{RabbitMQ: true}).RabbitMQ.CreateVhost(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return mq, false
}

// nodeVersion is the version that the node reports.
func nodeVersion(t *testing.T, url string) string {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return fmt.Sprint(conn.Properties["version"])
}

// modelSubject runs a body on the simulated broker of a release, as a task of a kernel.
func modelSubject(version string) brokertest.WithSubject {
	return func(t *testing.T, body func(s brokertest.Subject)) {
		t.Helper()
		runOnModel(t, simbroker.Like(version), body)
	}
}

func runOnModel(t *testing.T, version string, body func(s brokertest.Subject)) {
	t.Helper()
	k := kernel.New(kernel.Options{Chooser: kernel.NewRandom(1), MaxSteps: 1_000_000})
	defer k.Close()
	b := simbroker.New(k, simnet.New(k), nil, simbroker.Options{Version: version})
	done, sessions := false, 0
	subject := brokertest.Subject{
		Connect: func() (broker.Session, error) {
			sessions++
			return b.Client(k.NewProcess(fmt.Sprint("client", sessions)), 0).Connect(context.Background())
		},
		Sleep: func(d time.Duration) {
			wait := k.NewWait()
			k.WakeAfter(d, wait)
			_ = wait.Await(context.Background())
		},
		Now: k.Now,
		Within: func(d time.Duration, do func(ctx context.Context)) {
			ctx, cancel := k.WithTimeout(context.Background(), d)
			defer cancel()
			do(ctx)
		},
		Quiet: time.Second, Pause: 100 * time.Millisecond, Late: 50 * time.Millisecond,
		DeleteQueue: func(queue string) { b.DeleteQueue(queue) },
		Version:     version,
	}
	k.NewProcess("test").Go("body", func() {
		body(subject)
		done = true
	})
	k.Run(func() bool { return done }, time.Hour)
	if f := k.Failure(); f != nil {
		t.Fatalf("%v\n%s", f, f.Stack)
	}
	if !done {
		t.Fatal("the body did not come to its end")
	}
}

// rabbit is RabbitMQ with all functions that a subject can have.
type rabbit struct {
	*world
	begin time.Time
	// pace is the factor by which heartbeats are longer than usual.
	pace atomic.Int64

	mu      sync.Mutex
	proxies map[broker.Session]*proxy
}

// syncNames makes a node write the names of its quorum queues.
const syncNames = "lists:foreach(fun dets:sync/1, dets:all())."

// heartbeat is the heartbeat of the sessions of cases.
const heartbeat = 2 * time.Second

func (r *rabbit) newSubject() brokertest.Subject {
	r.pace.Store(1)
	r.proxies = make(map[broker.Session]*proxy)
	s := brokertest.Subject{
		Connect: r.openSession,
		Sleep:   time.Sleep,
		Now:     func() time.Duration { return time.Since(r.begin) },
		Within: func(d time.Duration, do func(ctx context.Context)) {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			do(ctx)
		},
		Prefix: r.mq.Prefix,
		Quiet:  250 * time.Millisecond, Pause: 100 * time.Millisecond, Late: 400 * time.Millisecond, Slot: 60 * time.Millisecond,
		Heartbeat: heartbeat, Busy: !testenv.All(), Slowed: func(pace int) { r.pace.Store(int64(pace)) }, Slow: os.Getenv("HANDOFF_CONFORMANCE_SLOW") != "",
		Restart: func() { r.restartNode(r.mq.Server.Stop) },
		DeleteQueue: func(queue string) {
			r.withAdmin(func(ch *amqp.Channel) error {
				_, err := ch.QueueDelete(queue, false, false, false)
				return err
			})
		},
		Malform: func(exchange, key string) {
			r.withAdmin(func(ch *amqp.Channel) error {
				if err := ch.Confirm(false); err != nil {
					return err
				}
				body := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("{\"message_type\": \xff")}
				confirm, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, body)
				if err == nil {
					confirm.Wait()
				}
				return err
			})
		},
		Alarm:   r.setAlarm,
		Cut:     func(s broker.Session, after time.Duration) { time.AfterFunc(after, r.proxyOf(s).cutConnections) },
		Silence: func(s broker.Session) { r.proxyOf(s).toward.setClosed(true); r.proxyOf(s).backing.setClosed(true) },
		Total:   r.queueTotal,
		Suspend: r.suspendQueue,
		ConsumerTimeout: func(d time.Duration) {
			tick := time.Second
			if d == 0 {
				d, tick = 30*time.Minute, time.Minute
			}
			r.evalOnNode("application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, %d).", d.Milliseconds(), tick.Milliseconds())
		},
	}
	if testenv.All() {
		// RabbitMQ 3.10 writes the names of its quorum queues every half second. A queue whose name was
		// not written before a kill has no leader afterwards: consuming from it hangs for a minute and
		// then ends the connection. On a busy machine this has happened in spite of syncNames, so kills
		// are for the night.
		s.Kill = func() {
			r.evalOnNode(syncNames)
			r.restartNode(r.mq.Server.Kill)
		}
	}
	return s
}

// openSession opens a session behind its own proxy.
func (r *rabbit) openSession() (broker.Session, error) {
	p := r.startProxy()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// On a busy machine with many sessions, one session may take long to open, and rabbitmqctl may take long
	// to resume a queue. The log has the reason why a session ended, which no error has. go test shows it if
	// a case fails.
	s, err := rabbitmq.New(rabbitmq.Options{
		URL: p.url, Heartbeat: time.Duration(r.pace.Load()) * heartbeat, DialTimeout: patience, OldestConfirm: time.Hour,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}).Connect(ctx)
	// A session has one connection. With 100,000 commands, listeners that stay open would take all
	// ports of the machine, including those that rabbitmqctl needs.
	p.listener.Close()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proxies[s] = p
	return s, nil
}

func (r *rabbit) proxyOf(s broker.Session) *proxy {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proxies[s]
}

// withAdmin calls do with a connection outside all sessions.
func (r *rabbit) withAdmin(do func(ch *amqp.Channel) error) {
	conn, err := amqp.Dial(r.mq.URL)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = do(ch)
	}
	if err != nil {
		r.t.Error(err)
	}
}

func (r *rabbit) restartNode(down func() error) {
	if err := down(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.mq.Server.Start(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rabbit) evalOnNode(format string, args ...any) string {
	out, err := r.mq.Server.Ctl(context.Background(), "eval", fmt.Sprintf(format, args...))
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (r *rabbit) setAlarm(on bool) {
	if on {
		r.evalOnNode("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).")
	} else {
		r.evalOnNode("rabbit_alarm:clear_alarm({resource_limit, memory, node()}).")
	}
}

// queueTotal queries the queue itself. The figures of rabbitmqctl for quorum queues are seconds old, and omit
// the dead letters that a queue keeps.
func (r *rabbit) queueTotal(queue string) int {
	out := r.evalOnNode(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<%q>>, queue, <<%q>>)),
		case amqqueue:get_type(Q) of
			rabbit_quorum_queue -> {ok, {_, N}, _} = ra:local_query(amqqueue:get_pid(Q), {rabbit_fifo, query_messages_total, []}), N;
			_ -> [{messages, N}] = rabbit_amqqueue:info(Q, [messages]), N
		end.`, r.mq.Vhost, queue)
	n, err := strconv.Atoi(out)
	if err != nil {
		r.t.Fatalf("messages of %s: %s", queue, out)
	}
	return n
}
