package rabbitmqtest_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
)

// These tests have more routes than a session has channels.

// channelCount is the number of channels of this virtual host, over all connections.
func (w *world) channelCount() int {
	w.t.Helper()
	out, err := w.mq.Server.Ctl(w.contextWithin(patience), "--silent", "list_connections", "vhost", "channels")
	if err != nil {
		w.t.Fatal(err, out)
	}
	sum := 0
	for line := range strings.Lines(out) {
		if count, ok := strings.CutPrefix(strings.TrimSpace(line), w.mq.Vhost+"\t"); ok {
			n, err := strconv.Atoi(count)
			if err != nil {
				w.t.Fatal(out)
			}
			sum += n
		}
	}
	return sum
}

// strayMessages are messages for n routes without a queue. Their channels open as for others.
func (w *world) strayMessages(n int) []broker.Message {
	var ms []broker.Message
	for i := range n {
		ms = append(ms, w.newMessage(w.objectName(fmt.Sprint("nowhere", i))))
	}
	return ms
}

// expectReturned publishes messages until each was returned. On a busy machine a channel may look stuck for a
// moment, and its messages have no outcome then.
func (w *world) expectReturned(s broker.Session, ms []broker.Message) {
	w.t.Helper()
	w.waitUntil("each message is returned", func() bool {
		var open []broker.Message
		for i, o := range s.Publish(w.contextWithin(patience), ms) {
			switch o {
			case broker.Returned:
			case broker.Unknown, broker.NotSent:
				open = append(open, ms[i])
			default:
				w.t.Fatalf("message %d of %d is %v", i, len(ms), o)
			}
		}
		if s.Closed() {
			w.t.Fatal("the session is closed")
		}
		ms = open
		return len(ms) == 0
	})
}

// TestIdleRoutesReleaseChannels: the remaining channels are that of the probes, the shared one and that of
// the test.
func TestIdleRoutesReleaseChannels(t *testing.T) {
	t.Parallel() // it waits
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{IdleChannel: time.Second})
	for range 2 {
		w.expectReturned(s, w.strayMessages(1100))
		w.waitUntil("the channels are closed", func() bool {
			n := w.channelCount()
			t.Logf("%d channels", n)
			return n <= 3
		})
	}
	if s.Closed() {
		t.Error("the session is closed")
	}
}

// TestStuckQueueDelaysOthersWithinBound: every channel has been used when the stuck queue gets its first
// message, even if the server or the operator allows few channels.
func TestStuckQueueDelaysOthersWithinBound(t *testing.T) {
	t.Parallel() // it waits
	for name, c := range map[string]struct {
		query  string
		routes int
	}{"own bound": {"", 1100}, "negotiated bound": {"?channel_max=6", 40}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.openSession(rabbitmq.Options{URL: w.mq.URL + c.query, OldestConfirm: time.Hour})
			stuck := w.declareQueue(s, broker.Queue{Name: w.objectName("stuck"), Type: quorum})
			well := w.declareQueue(s, broker.Queue{Name: w.objectName("well"), Type: quorum})
			w.expectReturned(s, w.strayMessages(c.routes))
			defer w.suspendQueue(stuck)()
			given, cancel := context.WithCancel(w.contextWithin(patience))
			outcomes := make(chan []broker.Outcome)
			go func() { outcomes <- s.Publish(given, w.newMessages(stuck, 1)) }()
			time.Sleep(50 * time.Millisecond) // the message to the stuck queue goes first
			for range 3 {
				// On a busy machine any queue may look stuck for a moment.
				w.waitUntil("another queue confirms", func() bool {
					return s.Publish(w.contextWithin(patience), w.newMessages(well, 1))[0] == broker.Confirmed
				})
				w.expectReturned(s, w.strayMessages(c.routes)[:3])
			}
			cancel()
			if got := <-outcomes; got[0] != broker.Unknown {
				t.Errorf("the publish to the stuck queue is %v", got[0])
			}
			if s.Closed() {
				t.Error("the session is closed")
			}
		})
	}
}

// TestOrderWhileChannelsChangeRoutes: each queue has all its messages, in the order of its publisher, with
// few channels for many routes and with channels that close frequently. On a busy machine a queue may look
// stuck for a second. Messages that it has not confirmed are then published again.
func TestOrderWhileChannelsChangeRoutes(t *testing.T) {
	t.Parallel() // it waits
	for _, query := range []string{"", "?channel_max=5"} {
		w := newWorld(t)
		s := w.openSession(rabbitmq.Options{URL: w.mq.URL + query, IdleChannel: 2 * time.Millisecond, Window: 4})
		const queues, calls, batch = 12, 40, 5
		var names []string
		again := make([]int, queues) // messages that were published repeatedly
		for q := range queues {
			names = append(names, w.declareQueue(s, broker.Queue{Name: w.objectName(fmt.Sprint("q", q)), Type: classic}))
		}
		var wg sync.WaitGroup
		for q, queue := range names {
			wg.Go(func() {
				for call := range calls {
					ms := w.newMessages(queue, batch)
					for i := range ms {
						ms[i].Envelope.MessageID = strconv.Itoa(call*batch + i)
					}
					for len(ms) > 0 && !s.Closed() {
						confirmed := 0
						for _, o := range s.Publish(w.contextWithin(patience), ms) {
							if o != broker.Confirmed {
								break
							}
							confirmed++
						}
						ms = ms[confirmed:]
						again[q] += len(ms)
						if len(ms) > 0 {
							time.Sleep(50 * time.Millisecond) // until the queue has confirmed
						}
					}
				}
			})
		}
		wg.Wait()
		if s.Closed() {
			t.Fatal("the session is closed")
		}
		t.Logf("published repeatedly: %v", again)
		for q, queue := range names {
			next, n := 0, 0
			for ; ; n++ {
				d, ok, err := w.raw.Get(queue, true)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				switch number, _ := strconv.Atoi(d.MessageId); {
				case number == next:
					next++
				case number > next:
					t.Errorf("%s: message %d before %d", queue, number, next)
					next = number + 1
				}
			}
			if next != calls*batch || n < next || n > next+again[q] {
				t.Errorf("%s: %d messages, the last is %d; %d were published repeatedly", queue, n, next-1, again[q])
			}
		}
	}
}
