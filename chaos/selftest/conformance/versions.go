package conformance

// Modelled are the releases of RabbitMQ that the model imitates, oldest first. A newer release is
// treated like the one before it (simbroker.Like).
var Modelled = []string{"3.10", "4.0", "4.3"}

// Behaviour is a behaviour in which releases of RabbitMQ differ. The model and the suite follow the
// release that is tested, so each difference is accepted for these releases only. There are none
// between releases of PostgreSQL.
type Behaviour struct {
	// Feature is its name in the suite: a field of brokertest.Features.
	Feature string
	// Rule is its number in the list of rules of RabbitMQ, Queues are the queues concerned.
	Rule, Queues string
	// On is the behaviour of each of Modelled.
	On [3]string
}

// Behaviours lists the differences between releases. The suite has the same list, and a test
// compares the two.
func Behaviours() []Behaviour {
	return []Behaviour{
		{
			"RequeuesLast", "28", "quorum",
			[3]string{"a requeued message goes to the end", "a requeued message is delivered before messages that were never delivered", "a requeued message is delivered before messages that were never delivered"},
		},
		{
			"RequeuesLast", "28", "quorum, without a delivery limit",
			[3]string{"a requeued message goes to the end", "a requeued message goes to the end", "a requeued message is delivered before messages that were never delivered"},
		},
		{
			"Limit", "30", "quorum",
			[3]string{"no delivery limit", "a message that was returned more than 20 times dies", "a message that was returned more than 20 times dies"},
		},
		{
			"MarksDead", "29", "quorum",
			[3]string{
				"a dead letter is not redelivered", "a dead letter that was rejected, or that the end of a session returned, is redelivered",
				"a dead letter that was rejected, or that the end of a session returned, is redelivered",
			},
		},
		{
			"MarksRequeued", "29", "quorum",
			[3]string{"a dead letter that was requeued is not redelivered", "a dead letter that was requeued is not redelivered", "a dead letter that was requeued is redelivered"},
		},
		{
			"NewestFirst", "18", "both",
			[3]string{"each death reverses the order of the older entries of x-death", "x-death is newest first", "x-death is newest first"},
		},
		{
			"Overdue", "31", "quorum",
			[3]string{
				"a delivery that stays unacknowledged ends the session", "a delivery that stays unacknowledged ends the session",
				"a delivery that stays unacknowledged goes back, uncounted, and its consumer is cancelled; the session stays open",
			},
		},
		{
			"Overdue", "31", "classic",
			[3]string{
				"a delivery that stays unacknowledged ends the session", "a delivery that stays unacknowledged ends the session",
				"a delivery may stay unacknowledged for ever",
			},
		},
	}
}

// Caveat is a warning for an upgrade of a server under a running system.
type Caveat struct{ Server, To, What, Do string }

// Caveats lists them. Those about the delivery limit and the consumer timeout were measured. The
// others are from the servers' own release notes; no test upgrades a server in place, and each
// release was tested on its own node.
func Caveats() []Caveat {
	return []Caveat{
		{
			"RabbitMQ", "4.0", "existing queues keep their arguments, and get the delivery limit of 20: a message that is returned more often to a queue without dead lettering is lost",
			"set the policy of docs/queues.md (The delivery limit) as soon as RabbitMQ 4 runs, since 3.10 refuses it; or delete the empty queues and start again; `/readyz` names them",
		},
		{
			"RabbitMQ", "4.0", "3.10 can't be upgraded in one step: each series starts only if the feature flags of the one before are enabled",
			"upgrade through 3.11, 3.12 and 3.13, with `rabbitmqctl enable_feature_flag all` after each; or begin with an empty broker, because the database has the whole state",
		},
		{
			"RabbitMQ", "4.3", "Mnesia is gone: a node starts in place only after 4.2 with the feature flag khepri_db",
			"enable it on 4.2 first; partition handling in rabbitmq.conf has no effect any more",
		},
		{
			"RabbitMQ", "4.3", "the queues have the consumer timeout, and classic queues have none: a consumer that hangs and keeps its connection keeps its deliveries",
			"use quorum queues (the default); for classic ones watch messages_unacknowledged, and close the connection of a consumer that hangs",
		},
		{
			"PostgreSQL", "17 and 18", "a data directory belongs to one major release; PostgreSQL 18 makes new ones with data checksums, and pg_upgrade needs the same setting in both",
			"pg_upgrade or a dump, with all executors and workers stopped; initdb --no-data-checksums if the old one has none",
		},
	}
}
