package fault

import (
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		Name: "consumer_timeout", Ends: WithFor,
		About:   "the broker closes the channel of each consumer that keeps a delivery unacknowledged for longer than `after`; from 4.3 on a quorum queue cancels the consumer instead, and a classic queue does nothing",
		Example: "consumer_timeout: {after: 20s}, for: 10m",
		Keys: []yamlfile.Key{
			yamlfile.Required("after", "how long a delivery may stay unacknowledged; RabbitMQ's own default is 30m", yamlfile.DurationSchema()),
		},
		Draw: func(d *Dice) string {
			return "consumer_timeout: {after: " + d.Lasting(5*time.Second, 10*time.Minute) + "}"
		},
	}, (*consumerTimeout).inject)
}

type consumerTimeout struct {
	brokerFault
	After time.Duration
}

// Read implements Fault.
func (c *consumerTimeout) Read(r *Reader) { c.After = r.DurationOf("after") }

// Describe implements Describer.
func (c *consumerTimeout) Describe() string { return "consumer timeout of " + c.After.String() }

func (c *consumerTimeout) inject(x *Injection, w ConsumerTimeouts) (func(), error) {
	return w.SetConsumerTimeout(x, c.After)
}
