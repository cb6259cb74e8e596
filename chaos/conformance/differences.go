// Package conformance says how faithful the models of the simulated world are: where they may
// differ from the real servers, what they leave out, which divergences were mended, and which
// servers agreed with them. The suites chaos/conformance/storetest and chaos/conformance/brokertest
// find that out. A divergence that is not in this package's tables is a bug of the model.
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
		{About: "ids", What: "gaps between ids", Why: "PostgreSQL draws a number before it knows whether the row comes to be; nobody counts by ids"},
		{About: "Create", What: "which row of one call gets the smaller id, when the call repeats a key or an item of it is wrong", Why: "items about one key are made one after the other, after the rest; the answer stands at its item's place all the same"},
		{About: "ClaimForScheduling", What: "whether a row is passed over that another call has locked", Why: "skipping is the point of the statement; the row comes at the next pass. In the model no two calls overlap"},
		{About: "every method", What: "the text of an error", Why: "callers go by its kind, and the kinds are compared"},
		{About: "Result", What: "white space around an output", Why: "PostgreSQL keeps the document inside another one; the document itself stays as it was, byte for byte"},
		{About: "Heartbeat", What: "what it answers as lost and what it ends may be judged at two moments", Why: "they are two statements of one transaction; a result that comes between them counts, and the next beat tells"},
		{About: "a batch that names a row twice, or has a wrong item", What: "other calls may come between its parts", Why: "each part is a guarded step of its own; no caller relies on a batch being one step"},
	}
}

func notInStore() []Difference {
	return []Difference{
		{About: "locks", What: "waiting for locks, lock timeouts, deadlocks", Why: "a step of the model is alone; their outcome, an unavailable database, is a fault of the scenario instead"},
		{About: "numbers", What: "numbers beyond 64, and where the schema says so 32 bits", Why: "nothing in this project counts so far"},
		{About: "JSON", What: "limits of depth and size, and escapes that PostgreSQL reads otherwise than Go", Why: "the API bounds what it takes"},
		{About: "failover", What: "which commits a standby lacks when it takes over", Why: "the fault `database: rewound` takes back all commits of the last seconds; no suite has a real standby that lags, to compare with"},
		{About: "restart", What: "recovery takes time after a crash", Why: "the scenario says for how long the database is away"},
	}
}

func openInBroker() []Difference {
	return []Difference{
		{About: "5", What: "what a session that published to a missing exchange learns of the publishes before", Why: "confirms and the closing of the channel are sent by different parts of the broker; the outcome is confirmed or unknown, and never says more than is true"},
		{About: "8", What: "whether a publish of a broken session was stored", Why: "that is what unknown means; what was confirmed is stored once, what was not sent is not stored"},
		{About: "25", What: "which of several consumers receives a message", Why: "turns depend on when each had room last; how many are delivered in all, and which, is compared"},
		{About: "28", What: "in which order a session that held messages by several consumers returns them to a quorum queue", Why: "each consumer has a channel of its own, whose ends the queue learns in any order"},
		{About: "31", What: "how late an overdue delivery is noticed", Why: "never early is the contract. Before 4.3 a channel looks once a minute; from then on a quorum queue was seen to be in time, by 0.2 s on a busy machine, and the model is exact"},
		{About: "38", What: "whether a requeue or a publish of the same session takes effect first", Why: "they go over two connections, because an alarm stops the publishing one; the model has one"},
		{About: "38", What: "the order of messages that one session publishes to one queue under different routing keys", Why: "the adapter has a channel for each route, because a queue that hangs holds up its channel; the model has one"},
		{About: "43", What: "how late an expired message dies", Why: "never early is the contract; late is bounded, generously on a busy machine"},
		{About: "Receive", What: "whether deliveries that had arrived before a session was lost can still be received", Why: "the model draws it for each session, the adapter never does; both are somebody else's by then, and the core must bear both"},
		{About: "Blocked", What: "when a session learns of an alarm", Why: "RabbitMQ tells a connection at its first publish during the alarm, the model at once; the outcome of what is held may be unknown or not sent"},
	}
}

func notInBroker() []Difference {
	return []Difference{
		{About: "3", What: "publishes that are not mandatory", Why: "the interface has none"},
		{About: "7", What: "a nack of the broker's own", Why: "queues have no limits here; the model nacks by a filter"},
		{About: "14", What: "a time to live of 0", Why: "the interface has none: 0 is no time to live"},
		{About: "20", What: "duplicates of at-least-once dead lettering", Why: "they need a target queue that fails between storing and confirming; duplicates come from the model's filter instead"},
		{About: "21, 24, 33, 37, 39, 42", What: "length limits, exclusive queues, single active consumers, transactions, alternate exchanges, taps", Why: "nothing in this project can ask for them"},
		{About: "30", What: "the delivery count, and limits that somebody sets by policies or in the server's configuration", Why: "no client sees them; the limit of 20 from 4.0 on, and queues without one, are modelled"},
		{About: "31", What: "consumer timeouts that a queue, a policy or a consumer sets, and `consumer_timeout_response` of 4.3.7, which closes the channel as before 4.3", Why: "this project sets none; whoever sets close_channel has the behaviour of 4.0, with which all scenarios run, too"},
		{About: "31", What: "a client that answers the cancellation, which 4.3.7 takes: the server then forgets the consumer, too", Why: "the model has what 4.3.6 does, which is worse for a client: the server gives out to a consumer that the client has forgotten. A process closes the session in either case"},
		{About: "29", What: "whether a dead letter that a consumer had before is marked redelivered when classic and quorum queues are mixed", Why: "a virtual host of this project has one type of queues; each of them is compared by the server's version"},
		{About: "36", What: "acknowledgements that a kill makes a classic queue forget", Why: "a redelivery is allowed at any time, and the model redelivers by other ways"},
		{About: "36", What: "a quorum queue that was declared less than half a second before a kill has no leader afterwards, and consuming from it hangs until the channel is closed a minute later", Why: "RabbitMQ 3.10 writes the names of its quorum queues every half second; a queue of this project is declared at the start of a process and used for long"},
		{About: "36, 41", What: "a connection that ends once with 541 INTERNAL_ERROR after a kill, while a quorum queue holds dead letters", Why: "seen on RabbitMQ 3.10 while its dead letter worker starts anew; a client connects again, as after any lost connection"},
		{About: "35", What: "an alarm stops all reading from a connection that publishes, also of its acknowledgements", Why: "the adapter publishes over a connection of its own, because of this"},
		{About: "clusters", What: "several nodes, elections, the loss of a majority", Why: "one node is what this project starts and what was measured"},
	}
}
