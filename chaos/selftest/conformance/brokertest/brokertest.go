// Package brokertest is the contract of broker.Broker: cases and random command sequences that run on the
// model and on RabbitMQ. The cases have the numbers of the rules that were reproduced on the real broker.
// They fix the behaviour that clients observe. If model and broker differ, the model is presumed wrong;
// chaos/selftest/conformance lists the accepted differences.
package brokertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff/core/broker"
)

// The queue types.
const (
	Classic = "classic"
	Quorum  = "quorum"
)

// Subject is a broker under test, with the functions that the suite needs. A function is nil if the subject
// does not support it: cases that need it are skipped.
type Subject struct {
	// Connect opens a session that is independent of the others, like those of several processes.
	Connect func() (broker.Session, error)
	// Sleep advances time, Now reads it, and Within calls do with a context of duration d.
	Sleep  func(d time.Duration)
	Now    func() time.Duration
	Within func(d time.Duration, do func(ctx context.Context))

	// Prefix is the prefix of every name.
	Prefix string
	// Version is the release of RabbitMQ that the subject is or imitates; empty for 3.10.
	Version string
	// Quiet is the time after which the suite concludes that nothing will come.
	Quiet time.Duration
	// Pause is the longest time that the broker takes for work without a reply.
	Pause time.Duration
	// Late bounds the delay until the death of an expired message is visible.
	Late time.Duration
	// Slot is the smallest step of sequences in which messages expire.
	Slot time.Duration
	// Heartbeat is the heartbeat of the sessions.
	Heartbeat time.Duration
	// Slow permits cases that wait for minutes.
	Slow bool
	// Busy reports whether the subject's machine may do other work. Then no case judges lateness, and a
	// failed case is repeated more slowly.
	Busy bool
	// Slowed, if not nil, makes the heartbeats of later sessions longer by the factor.
	Slowed func(pace int)

	// Restart stops the broker cleanly and starts it again. Kill ends it without warning and starts it again.
	Restart, Kill func()
	// DeleteQueue deletes a queue without the knowledge of any session.
	DeleteQueue func(queue string)
	// Malform publishes a body that is not an envelope.
	Malform func(exchange, key string)
	// Alarm raises or clears the memory alarm.
	Alarm func(on bool)
	// Cut breaks a session's connection after a while: both ends notice, and messages in transit may be lost.
	// Silence stops all its traffic without either end noticing.
	Cut     func(s broker.Session, after time.Duration)
	Silence func(s broker.Session)
	// Suspend makes a queue hang until resume is called. ConsumerTimeout limits how long a delivery may stay
	// unacknowledged in new sessions and consumers, and takes effect within a second; 0 restores the default.
	Suspend         func(queue string) (resume func())
	ConsumerTimeout func(d time.Duration)
	// Total is the number of a queue's messages: ready, unsettled, and held dead letters.
	Total func(queue string) int
}

// Features are the differences between queues, by their type, the release of the broker, and
// whether they keep returned messages.
type Features struct {
	// HoldsDeadLetters: a dead letter without a route stays and is retried (rule 41); otherwise it is lost
	// (rule 17).
	HoldsDeadLetters bool
	// MarksRecovered: after a kill every message is redelivered, seen or not.
	MarksRecovered bool
	// ByDelivery: messages that the end of a session returns come first, in the order of delivery;
	// otherwise they return to their old place (rule 28).
	ByDelivery bool
	// RequeuesLast: a message that a consumer requeues goes to the end of the queue; otherwise to
	// the same place as after the end of a session.
	RequeuesLast bool
	// Limit is the number of returns after which a message dies, 0 for no limit (rule 30).
	Limit int
	// MarksDead: a dead letter is marked redelivered if it was rejected, or if the end of a session
	// had returned it. MarksRequeued: so is one that a consumer had requeued (rule 29).
	MarksDead, MarksRequeued bool
	// NewestFirst: x-death has the newest entry first; otherwise the older entries are reversed
	// with each death (rule 18).
	NewestFirst bool
	// Overdue is the fate of a delivery that stays unacknowledged for too long (rule 31).
	Overdue Overdue
}

// Overdue is the fate of a delivery that stays unacknowledged for too long.
type Overdue uint8

// The effects on an overdue delivery.
const (
	// EndsSession: the channel of its consumer is closed, which ends the session.
	EndsSession Overdue = iota
	// CancelsConsumer: it returns to the queue, and its consumer is cancelled; the session stays
	// open.
	CancelsConsumer
	// StaysHeld: nothing happens.
	StaysHeld
)

// limit is the default limit of a quorum queue, from RabbitMQ 4.0 on.
const limit = 20

// FeaturesOf returns the features of a queue on a release. keeps reports whether the queue keeps returned
// messages.
func FeaturesOf(queueType, version string, keeps bool) Features {
	major, minor := majorMinor(version)
	four := major >= 4
	byQueue := major > 4 || four && minor >= 3 // queues have the consumer timeout, not channels
	if queueType != Quorum {
		f := Features{MarksRecovered: true, NewestFirst: four}
		if byQueue {
			f.Overdue = StaysHeld
		}
		return f
	}
	f := Features{
		HoldsDeadLetters: true, ByDelivery: true, MarksDead: four, NewestFirst: four, RequeuesLast: !four || keeps && major == 4 && minor < 3,
		MarksRequeued: byQueue,
	}
	if byQueue {
		f.Overdue = CancelsConsumer
	}
	if four && !keeps {
		f.Limit = limit
	}
	return f
}

// majorMinor returns the first two numbers of a version; 3.10 if it has none.
func majorMinor(version string) (major, minor int) {
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || n != 2 {
		return 3, 10
	}
	return major, minor
}

// WithSubject runs a body on a subject. Each case has its own prefix for names, so the subject need not be
// empty. The model runs the body as a task of a kernel, so a body must not fail the test from another
// goroutine, and must not start any.
type WithSubject func(t *testing.T, body func(s Subject))

// Case is one named rule of the contract.
type Case struct {
	// Name states the rule, with its number if it has one.
	Name string
	// Types are the queue types for which the case runs; nil for both.
	Types []string
	// Alone: the case disturbs the whole broker.
	Alone bool
	needs requirement
	body  func(b *fixture)
}

// requirement reports whether a subject supports what a case needs.
type requirement func(s *Subject) bool

func needsDelete(s *Subject) bool  { return s.DeleteQueue != nil }
func needsMalform(s *Subject) bool { return s.Malform != nil }
func needsAlarm(s *Subject) bool   { return s.Alarm != nil }
func needsCut(s *Subject) bool     { return s.Cut != nil }
func needsSilence(s *Subject) bool { return s.Silence != nil && s.Heartbeat > 0 }
func needsTotal(s *Subject) bool   { return s.Total != nil }
func needsSlow(s *Subject) bool    { return s.Slow }

// Cases lists every case that leaves the broker running.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{
		routingCases(), publishCases(), declareCases(), missingCases(), expiryCases(), heldExpiryCases(),
		requeueExpiryCases(), deadLetterCases(), copyCases(), deathCases(), routelessCases(),
		prefetchCases(), settleCases(), requeueCases(), limitCases(), endCases(), returnCases(), orderCases(),
		deletionCases(), stateCases(), faultCases(), stuckCases(),
	} {
		all = append(all, group...)
	}
	return all
}

// queueTypes returns the queue types for which a case runs.
func (c *Case) queueTypes() []string {
	if c.Types == nil {
		return []string{Classic, Quorum}
	}
	return c.Types
}

// Run runs every case, atOnce at a time, and after them the cases that outlast a restart. It returns how many
// cases were run, and how many this subject does not support.
func Run(t *testing.T, world WithSubject, atOnce int) (ran, skipped int) {
	ran, skipped = RunCases(t, world, atOnce)
	restarted, notRestarted := RunRestarts(t, world)
	return ran + restarted, skipped + notRestarted
}

// RunCases is Run without the cases that outlast a restart.
func RunCases(t *testing.T, world WithSubject, atOnce int) (ran, skipped int) {
	var together, alone []func(t *testing.T)
	var asked, passedOver atomic.Int64
	for i, c := range Cases() {
		for _, queueType := range c.queueTypes() {
			run := func(t *testing.T) {
				t.Run(queueType+"/"+c.Name, func(t *testing.T) {
					if c.runOn(t, world, queueType, fmt.Sprintf("%s.%d.", queueType, i)) {
						asked.Add(1)
						return
					}
					passedOver.Add(1)
					t.Skip("this subject can't do that")
				})
			}
			if c.Alone {
				alone = append(alone, run)
			} else {
				together = append(together, run)
			}
		}
	}
	t.Run("cases", func(t *testing.T) {
		atATime(atOnce, len(together), func(i int) { together[i](t) })
		for _, run := range alone {
			run(t)
		}
	})
	return int(asked.Load()), int(passedOver.Load())
}

// RunRestarts is Run with the cases that outlast a restart only.
func RunRestarts(t *testing.T, world WithSubject) (ran, skipped int) {
	for _, name := range []string{"restart", "kill"} {
		t.Run(name, func(t *testing.T) {
			n := runRestarts(t, world, name == "kill")
			if ran += n; n == 0 {
				skipped += restartCases()
				t.Skip("this subject can't do that")
			}
		})
	}
	return ran, skipped
}

// restartCases is the number of cases that outlast a restart.
func restartCases() (n int) {
	for _, c := range outlastingCases() {
		n += len(c.queueTypes())
	}
	return n
}

// atATime calls do for 0 to n-1, atOnce at a time. Go limits parallel tests to the number of processors, but
// cases mostly wait.
func atATime(atOnce, n int, do func(i int)) {
	var workers sync.WaitGroup
	next := make(chan int)
	for range max(1, min(atOnce, n)) {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// runOn runs the case and returns true, or false if the subject does not support it.
func (c *Case) runOn(t *testing.T, world WithSubject, queueType, prefix string) (asked bool) {
	again := true
	for i, pace := range casePaces {
		if !again {
			break
		}
		world(t, func(s Subject) {
			again = false
			if asked = c.needs == nil || c.needs(&s); !asked {
				return
			}
			judge := func(t tester) {
				b := newFixture(t, &s, queueType, prefix)
				b.slowDown(pace)
				defer b.closeSessions() // of a case that has stopped early, which may have left a queue that hangs
				c.body(b)
				b.cleanUp()
			}
			if !s.Busy || i == len(casePaces)-1 {
				judge(t)
				return
			}
			if failed := collectFailures(judge); len(failed) > 0 {
				t.Logf("repeated more slowly: %s", strings.Join(failed, "; "))
				again = true
			}
		})
	}
	return asked
}

// casePaces are the factors by which a case is slowed down on a busy machine, after it failed. On such a
// machine a message may expire before it is delivered. A broken rule is broken at every pace.
var casePaces = []int{1, 4, 16}

// slowDown makes all times of the case longer.
func (f *fixture) slowDown(pace int) {
	if pace == 1 {
		return
	}
	factor := time.Duration(pace)
	f.soon, f.ttl = f.soon*factor, f.ttl*factor
	f.Quiet, f.Pause, f.Late, f.Heartbeat = f.Quiet*factor, f.Pause*factor, f.Late*factor, f.Heartbeat*factor
	f.prefix += fmt.Sprintf("slower%d.", pace)
	if f.Slowed != nil {
		f.Slowed(pace)
	}
}

// recorder keeps failures instead of failing a test.
type recorder struct{ failed []string }

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// collectFailures returns the failures of a judgement.
func collectFailures(judge func(t tester)) []string {
	var r recorder
	done := make(chan struct{})
	go func() {
		defer close(done)
		judge(&r)
	}()
	<-done
	return r.failed
}

// runRestarts prepares every case that outlasts a restart, restarts once, and then judges them all. On a busy
// machine it repeats all of this more slowly if one fails. It returns the number of cases, 0 if the subject
// can't restart.
func runRestarts(t *testing.T, world WithSubject, kill bool) int {
	var benches []*fixture
	again := true
	for i, pace := range casePaces {
		if !again {
			break
		}
		world(t, func(s Subject) {
			again, benches = false, nil
			restart := s.Restart
			if kill {
				restart = s.Kill
			}
			if restart == nil {
				return
			}
			if !s.Busy || i == len(casePaces)-1 {
				benches = restartOnce(t, &s, restart, kill, pace)
				return
			}
			failed := collectFailures(func(t tester) { benches = restartOnce(t, &s, restart, kill, pace) })
			for _, b := range benches {
				failed = append(failed, *b.later...)
			}
			if len(failed) > 0 {
				t.Logf("repeated more slowly: %s", strings.Join(failed, "; "))
				again = true
			}
		})
	}
	for _, b := range benches {
		t.Run(b.name, func(t *testing.T) {
			for _, failure := range slices.Compact(*b.later) {
				t.Error(failure)
			}
		})
	}
	return len(benches)
}

// restartOnce prepares every case that outlasts a restart, restarts, and judges them.
func restartOnce(t tester, s *Subject, restart func(), kill bool, pace int) (benches []*fixture) {
	var after []func()
	for i, c := range outlastingCases() {
		for _, queueType := range c.queueTypes() {
			b := newFixture(t, s, queueType, fmt.Sprintf("%s.restart.%v.%d.", queueType, kill, i))
			b.slowDown(pace)
			b.later = &[]string{}
			b.name = queueType + "/" + c.Name
			benches = append(benches, b)
			after = append(after, c.before(b))
		}
	}
	restart()
	for i, b := range benches {
		b.sessions, b.back, b.killed = nil, s.Now(), kill
		after[i]()
		b.cleanUp()
	}
	return benches
}
