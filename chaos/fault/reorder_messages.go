package fault

import (
	"time"
)

func init() {
	const about = "messages of one type are overtaken by the next one in their queue"
	Register(Kind{
		Name: "reorder_messages", Under: "messages", As: "reorder", Ends: WithFor, Excuses: []Cause{DispatchesFail},
		About:   about,
		Example: "messages: {reorder: execution.scheduled, by: 10s, rate: 30%}, for: 60s",
		Draw:    func(d *Dice) string { return d.Messages("reorder", ", by: "+d.Span(10*time.Millisecond, time.Minute)) },
		Keys:    messageKeys("reorder", about, byKey()),
	}, (*reorderMessages).inject)
}

type reorderMessages struct {
	messageSelector
	// By is how long each message is delayed.
	By Span
}

// Read implements Fault.
func (rm *reorderMessages) Read(r *Reader) {
	rm.readSelector(r)
	rm.By = r.Adds("by")
}

// Describe implements Describer.
func (rm *reorderMessages) Describe() string { return rm.describeMessages("reorder") }

func (rm *reorderMessages) inject(x *Injection, w Messages) (func(), error) {
	return rm.interceptMessages(x, w, func() Fate { return Fate{Delay: x.drawSpan(rm.By), Behind: true} })
}
