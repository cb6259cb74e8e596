package fault

import (
	"time"
)

func init() {
	const about = "messages of one type arrive late"
	Register(Kind{
		Name: "delay_messages", Under: "messages", As: "delay", Ends: WithFor, Excuses: []Cause{DispatchesFail},
		About:   about,
		Example: "messages: {delay: execution.status_changed, by: [1s, 30s], rate: 50%}, for: 60s",
		Draw:    func(d *Dice) string { return d.Messages("delay", ", by: "+d.Span(10*time.Millisecond, time.Minute)) },
		Keys:    messageKeys("delay", about, byKey()),
	}, (*delayMessages).inject)
}

type delayMessages struct {
	messageSelector
	// By is how long each message is delayed.
	By Span
}

// Read implements Fault.
func (d *delayMessages) Read(r *Reader) {
	d.readSelector(r)
	d.By = r.Adds("by")
}

// Describe implements Describer.
func (d *delayMessages) Describe() string { return d.describeMessages("delay") }

func (d *delayMessages) inject(x *Injection, w Messages) (func(), error) {
	return d.interceptMessages(x, w, func() Fate { return Fate{Delay: x.drawSpan(d.By)} })
}
