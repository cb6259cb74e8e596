// Package conformance records how faithful the models of the simulated world are: where they may differ from
// the real servers, what they leave out, which divergences were fixed, and which servers agreed with them.
// The suites chaos/selftest/conformance/storetest and chaos/selftest/conformance/brokertest find that out. A
// divergence that is not in this package's tables is a bug of the model.
package conformance

// Kind is the kind of a difference.
type Kind string

// The kinds. If the contract leaves something open, both answers are right. If something is not
// modelled, it exists on the server only.
const (
	Open        Kind = "left open"
	NotModelled Kind = "not modelled"
)

// Models.
const (
	Store  = "store"
	Broker = "broker"
)

// Difference is something that a model and its server may do differently.
type Difference struct {
	Model string
	Kind  Kind
	// About is the method, or the number of the rule in the list of rules of RabbitMQ.
	About string
	// What is the difference, and Why the reason to accept it.
	What, Why string
}

// Differences lists every accepted difference.
func Differences() []Difference {
	var all []Difference
	for _, group := range []struct {
		model string
		kind  Kind
		list  []Difference
	}{
		{Store, Open, openInStore()}, {Store, NotModelled, notInStore()}, {Broker, Open, openInBroker()}, {Broker, NotModelled, notInBroker()},
	} {
		for _, d := range group.list {
			d.Model, d.Kind = group.model, group.kind
			all = append(all, d)
		}
	}
	return all
}

func openInStore() []Difference {
	return []Difference{
		{About: "ids", What: "gaps between ids", Why: "PostgreSQL draws a number before it knows whether the row will exist; nothing counts by ids"},
		{About: "Create", What: "which row of one call gets the smaller id, if the call repeats a key or one of its items is invalid", Why: "items with the same key are created one after the other, after the rest; each answer still has its item's index"},
		{About: "ClaimForScheduling", What: "whether a row that another call has locked is passed over", Why: "the statement skips locked rows on purpose; the row comes at the next pass. In the model no two calls overlap"},
		{About: "every method", What: "the text of an error", Why: "callers distinguish errors by their kind, and the kinds are compared"},
		{About: "Result", What: "white space around an output", Why: "PostgreSQL keeps the document inside another one; the document itself stays the same, byte for byte"},
		{About: "Heartbeat", What: "the executions that it reports as lost and those that it ends may be judged at two moments", Why: "these are two statements of one transaction; a result that comes between them counts, and the next heartbeat reports it"},
		{About: "a batch that names a row twice, or has an invalid item", What: "other calls may come between its parts", Why: "each part is a separate guarded step; no caller relies on a batch being one step"},
	}
}

func notInStore() []Difference {
	return []Difference{
		{About: "locks", What: "waiting for locks, lock timeouts, deadlocks", Why: "a step of the model runs alone; the effect, an unavailable database, is a fault of the scenario instead"},
		{About: "numbers", What: "numbers beyond 64 bits, or 32 bits for some columns", Why: "no number in this project grows so large"},
		{About: "JSON", What: "limits of depth and size, and escapes that PostgreSQL reads differently from Go", Why: "the API bounds the documents that it accepts"},
		{About: "failover", What: "which commits a standby lacks when it becomes the primary", Why: "the fault `database: rewound` takes back all commits of the last seconds; no suite has a real standby that lags, to compare with"},
		{About: "restart", What: "recovery takes time after a crash", Why: "the scenario says for how long the database is away"},
	}
}

func openInBroker() []Difference {
	return []Difference{
		{About: "5", What: "the outcome of earlier publishes, if a session publishes to a missing exchange", Why: "different parts of the broker send confirms and close the channel; the outcome is confirmed or unknown, and never wrong"},
		{About: "8", What: "whether a publish of a broken session was stored", Why: "the outcome is unknown; a confirmed message is stored once, and an unsent one is not stored"},
		{About: "25", What: "which of several consumers receives a message", Why: "this depends on when each last had room; the number of all deliveries, and which they are, is compared"},
		{About: "28", What: "the order in which a session returns the messages of several consumers to a quorum queue", Why: "each consumer has its own channel, and the queue learns of their ends in any order"},
		{About: "31", What: "how late an overdue delivery is noticed", Why: "the contract says only that it is never early. Before 4.3 a channel checks once a minute; from 4.3 on a quorum queue was seen to notice it within 0.2 s on a busy machine, and the model is exact"},
		{About: "38", What: "whether a requeue or a publish of the same session takes effect first", Why: "they use two connections, because an alarm stops the publishing one; the model has one"},
		{About: "38", What: "the order of messages that one session publishes to one queue under different routing keys", Why: "the adapter has a channel for each route, because a queue that hangs holds up its channel; the model has one"},
		{About: "43", What: "how late an expired message dies", Why: "the contract says only that it is never early; the delay is bounded, generously on a busy machine"},
		{About: "Receive", What: "whether deliveries that had arrived before a session was lost can still be received", Why: "the model draws this for each session, the adapter never delivers them; the broker has requeued them by then, and the core must cope with both"},
		{About: "Blocked", What: "when a session learns of an alarm", Why: "RabbitMQ tells a connection at its first publish during the alarm, the model at once; the outcome of a waiting publish may be unknown or not sent"},
	}
}

func notInBroker() []Difference {
	return []Difference{
		{About: "3", What: "publishes that are not mandatory", Why: "the interface has none"},
		{About: "7", What: "a nack that the broker sends by itself", Why: "queues have no limits here; the model nacks by a filter"},
		{About: "14", What: "a time to live of 0", Why: "the interface has none: 0 is no time to live"},
		{About: "20", What: "duplicates of at-least-once dead lettering", Why: "they need a target queue that fails between storing and confirming; the model's filter makes duplicates instead"},
		{About: "21, 24, 33, 37, 39, 42", What: "length limits, exclusive queues, single active consumers, transactions, alternate exchanges, taps", Why: "nothing in this project can ask for them"},
		{About: "30", What: "the delivery count, and limits set by policies or in the server's configuration", Why: "no client sees them; the limit of 20 from 4.0 on, and queues without one, are modelled"},
		{About: "31", What: "consumer timeouts that a queue, a policy or a consumer sets, and `consumer_timeout_response` of 4.3.7, which closes the channel as before 4.3", Why: "this project sets none; close_channel gives the behaviour of 4.0, with which all scenarios run, too"},
		{About: "31", What: "a client that answers the cancellation, which 4.3.7 accepts: the server then forgets the consumer, too", Why: "the model behaves like 4.3.6, which is worse for a client: the server delivers to a consumer that the client has forgotten. A process closes the session in either case"},
		{About: "29", What: "whether a dead letter that a consumer had before is marked redelivered when classic and quorum queues are mixed", Why: "a virtual host of this project has one type of queues; each of them is compared by the server's version"},
		{About: "36", What: "acknowledgements that a kill makes a classic queue forget", Why: "a redelivery is allowed at any time, and the model redelivers for other reasons"},
		{About: "36", What: "a quorum queue that was declared less than half a second before a kill has no leader afterwards, and consuming from it hangs until the channel is closed a minute later", Why: "RabbitMQ 3.10 writes the names of its quorum queues every half second; a queue of this project is declared at the start of a process and used for a long time"},
		{About: "36, 41", What: "a connection that ends once with 541 INTERNAL_ERROR after a kill, while a quorum queue holds dead letters", Why: "seen on RabbitMQ 3.10 while its dead letter worker restarts; a client connects again, as after any lost connection"},
		{About: "35", What: "an alarm stops all reading from a connection that publishes, including its acknowledgements", Why: "because of this, the adapter publishes over a separate connection"},
		{About: "clusters", What: "several nodes, elections, the loss of a majority", Why: "this project starts one node, and the measurements were made on one"},
	}
}
