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
	ofMessages
	// By is how late each message is.
	By Span
}

// Read implements Fault.
func (f *reorderMessages) Read(r *Reader) {
	f.read(r)
	f.By = r.Adds("by")
}

// Describe implements Describer.
func (f *reorderMessages) Describe() string { return f.describe("reorder") }

func (f *reorderMessages) inject(x *Injection, w Messages) (func(), error) {
	return f.intercept(x, w, func() Fate { return Fate{Delay: x.draw(f.By), Behind: true} })
}
