package brokertest

// Difference is something that the model and RabbitMQ may do differently.
type Difference struct {
	// Rule is the number in the list of rules, or the method that it is about.
	Rule string
	// What differs, and Why that is accepted.
	What, Why string
}

// Accepted lists what may differ between the model and RabbitMQ, and what the model leaves out. What
// is not in it is a bug of the model.
func Accepted() []Difference {
	return append(leftOpen(), notModelled()...)
}

// leftOpen is what the contract leaves open: both are right.
func leftOpen() []Difference {
	return []Difference{
		{"5", "what a session that published to a missing exchange learns of the publishes before", "confirms and the closing of the channel are sent by different parts of the broker; the outcome is confirmed or unknown, and never says more than is true"},
		{"8", "whether a publish of a broken session was stored", "that is what unknown means; what was confirmed is stored once, what was not sent is not stored"},
		{"25", "which of several consumers receives a message", "turns depend on when each had room last; how many are delivered in all, and which, is compared"},
		{"28", "in which order a session that held messages by several consumers returns them to a quorum queue", "each consumer has a channel of its own, whose ends the queue learns in any order"},
		{"38", "whether a requeue or a publish of the same session takes effect first", "they go over two connections, because an alarm stops the publishing one; the model has one"},
		{"43", "how late an expired message dies", "never early is the contract; late is bounded, generously on a busy machine"},
		{"Receive", "whether deliveries that had arrived before a session was lost can still be received", "the model draws it for each session, the adapter never does; both are somebody else's by then, and the core must bear both"},
		{"Blocked", "when a session learns of an alarm", "RabbitMQ tells a connection at its first publish during the alarm, the model at once; the outcome of what is held may be unknown or not sent"},
	}
}

// notModelled is what RabbitMQ does and the model does not.
func notModelled() []Difference {
	return []Difference{
		{"3", "publishes that are not mandatory", "the interface has none"},
		{"7", "a nack of the broker's own", "queues have no limits here; the model nacks by a filter"},
		{"14", "a time to live of 0", "the interface has none: 0 is no time to live"},
		{"20", "duplicates of at-least-once dead lettering", "they need a target queue that fails between storing and confirming; duplicates come from the model's filter instead"},
		{"21, 23, 24, 33, 37, 39, 42", "length limits, queues that expire or are exclusive, single active consumers, transactions, alternate exchanges, taps", "nothing in this project can ask for them"},
		{"30", "the delivery count and its limit", "no client sees the count, and the limit is off before 4.0; from then on it is 20 unless set"},
		{"31", "the consumer timeout of 30 minutes", "the core acknowledges at the claim, far below it"},
		{"36", "acknowledgements that a kill makes a classic queue forget", "a redelivery is allowed at any time, and the model redelivers by other ways"},
		{"36", "a quorum queue that was declared less than half a second before a kill has no leader afterwards, and consuming from it hangs until the channel is closed a minute later", "RabbitMQ 3.10 writes the names of its quorum queues every half second; a queue of this project is declared at the start of a process and used for long"},
	}
}
