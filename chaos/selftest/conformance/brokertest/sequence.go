package brokertest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// op is the kind of a command.
type op uint8

const (
	opPublish    op = iota // A messages into the first queue
	opUnroutable           // a message that is returned, between two that are not
	opSubscribe            // to queue A, with prefetch B
	opAck                  // the A-th oldest held delivery
	opReject               // the same
	opRequeue              // the same
	opTwice                // the same, acknowledged twice, which ends its session
	opCancel               // the A-th consumer
	opClose                // the A-th consumer's session
	opOtherTTL             // a declaration that is refused
	opDelete               // the first queue is deleted and redeclared
	opMissing              // consuming from a queue that does not exist
	opRest                 // time passes
	ops          = int(opRest) + 1
)

var opNames = [ops]string{
	"publish", "unroutable", "subscribe", "ack", "reject", "requeue", "twice", "cancel", "close",
	"other time to live", "delete", "missing", "rest",
}

// command is one step of a sequence. A number that selects something is taken modulo the number of
// choices, so that a sequence stays valid when commands are left out.
type command struct {
	op   op
	a, b int
}

// String shows the command in the text of a failure.
func (c command) String() string { return fmt.Sprintf("%s %d %d", opNames[c.op], c.a, c.b) }

// sequence is data: the same sequence runs on every subject. Its two queues feed each other: a message that
// dies in one goes to the other.
type sequence struct {
	seed      uint64
	queueType string
	// mortal: messages of the first queue expire. Then commands have slots of time, and expiry
	// falls between two.
	mortal bool
	// keeps: both queues keep returned messages, however often they are returned.
	keeps bool
	// crowd: each queue has several consumers. It is open which of them receives a message, so
	// their deliveries are compared as a whole, and no command depends on who holds which.
	crowd    bool
	commands []command
}

// lifetime is the time to live of a mortal sequence, in half slots.
const lifetime = 13

// weights are the relative frequencies of the commands.
var weights = [ops]int{
	opPublish: 22, opUnroutable: 3, opSubscribe: 12, opAck: 16, opReject: 12, opRequeue: 12, opTwice: 2,
	opCancel: 5, opClose: 5, opOtherTTL: 2, opDelete: 1, opMissing: 1, opRest: 0,
}

// drawSequence draws a sequence.
func drawSequence(seed uint64, canDelete bool) sequence {
	r := rand.New(rand.NewPCG(seed, 0x5ca1ab1e))
	s := sequence{seed: seed, queueType: Classic, mortal: r.IntN(3) == 0, crowd: r.IntN(3) == 0}
	if r.IntN(2) == 0 {
		s.queueType = Quorum
	}
	s.keeps = seed%3 == 0
	w := weights
	if s.crowd {
		w[opTwice], w[opCancel], w[opClose], w[opDelete] = 0, 0, 0, 0
	}
	if s.mortal {
		w[opRest], w[opPublish] = 15, 30
	}
	if !canDelete {
		w[opDelete] = 0
	}
	total := 0
	for _, n := range w {
		total += n
	}
	for range 20 + r.IntN(30) {
		n := r.IntN(total)
		c := command{a: r.IntN(12), b: r.IntN(5)}
		for n >= w[c.op] {
			n -= w[c.op]
			c.op++
		}
		s.commands = append(s.commands, c)
	}
	return s
}

// String shows the sequence in the text of a failure.
func (s sequence) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sequence %d on %s queues, mortal %v, keeps %v, crowd %v:", s.seed, s.queueType, s.mortal, s.keeps, s.crowd)
	for i, c := range s.commands {
		fmt.Fprintf(&b, "\n%4d  %v", i, c)
	}
	return b.String()
}

// withoutCommands leaves out n commands, beginning at from.
func (s sequence) withoutCommands(from, n int) sequence {
	kept := append([]command{}, s.commands[:from]...)
	s.commands = append(kept, s.commands[min(from+n, len(s.commands)):]...)
	return s
}

// observation is what clients observed during one command.
type observation struct {
	lines      []string
	deliveries int
}

// firstDifference returns the first difference between two subjects, or "".
func firstDifference(s sequence, want, got []observation) string {
	for i := range want {
		if i >= len(got) {
			return fmt.Sprintf("the subject stopped before command %d", i)
		}
		if fmt.Sprint(want[i].lines) != fmt.Sprint(got[i].lines) {
			what := "at the end"
			if i < len(s.commands) {
				what = fmt.Sprintf("command %d (%v)", i, s.commands[i])
			}
			return fmt.Sprintf("%s:\n  reference  %s\n  subject    %s", what,
				strings.Join(want[i].lines, "\n             "), strings.Join(got[i].lines, "\n             "))
		}
	}
	return ""
}
