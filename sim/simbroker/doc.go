// Package simbroker is a model of RabbitMQ inside the kernel: one node, as 3.10, 4.0 or 4.3 was measured to
// behave; 3.10 unless Options.Version names another (Versions). It implements broker.Broker for each
// simulated process, over simnet, so that everything a client receives can be late, lost or wrong.
//
// # Which rules are modelled
//
// The numbers refer to the list of rules that were reproduced on the real broker.
//
//	 1  topic and direct routing; "#" is a word like any other on a direct exchange
//	 2  the default exchange routes by queue name
//	 4  a mandatory publish without a route is returned, and stored nowhere
//	 5  a publish to a missing exchange closes the session; what it had not confirmed is unknown
//	 6  a confirm comes after every routed queue has stored the message, in no promised order
//	 7  a nack, as a fault of a filter only: queues have no limits
//	 8  a session that ends before the confirm leaves the outcome unknown, stored or not
//	 9  x-message-ttl of a queue (a message has no expiration of its own in this project)
//	10  expired messages are never delivered, and leave at the head only
//	11  a delivered message does not expire
//	12  a requeued message keeps its expiry; if it has passed, the message dies at once, even if a
//	    consumer waits
//	13  expiry runs on while the broker is down
//	15  dead letters come from rejection, expiry and too many returns (rule 30); deleting a queue
//	    makes none
//	16  a dead letter keeps its routing key
//	17  a classic queue drops a dead letter whose exchange is missing or has no route
//	18  x-death: newest first, one entry for a queue and reason, with count and time (in seconds) of
//	    the first; before 4.0 each death reverses the older entries
//	19  a dead letter that returns to a queue without a rejection on its way is dropped
//	20  at-least-once dead lettering of quorum queues, without its duplicates: the move is one step
//	22  a redeclaration with other settings is refused
//	23  x-expires: a queue that has had no consumer for this time is deleted; a declaration of a
//	    classic queue restarts this time; a quorum queue is deleted up to 5 s later, at the next
//	    tick of its leader (here always 5 s)
//	25  prefetch for each consumer, 0 being no limit; consumers take turns
//	26  delivery tags belong to a session; an unknown one, or one settled twice, closes the session
//	27  cancelling a consumer leaves what it holds with the session
//	28  the end of a session requeues all it held, at its old places, redelivered
//	29  redelivered means "maybe seen": the delivery may never have reached the program; from 4.0 on,
//	    some dead letters carry it too
//	30  the delivery count of quorum queues: from 4.0 on, a message that returns more than 20 times
//	    dies, unless its queue was declared to keep returned messages; before 4.0 there is no limit
//	31  the consumer timeout: a delivery that stays unacknowledged ends the session, up to a minute
//	    late; from 4.3 on a quorum queue requeues it on time and cancels the consumer, and a
//	    classic queue has no timeout
//	32  deleting a queue cancels its consumers and leaves their sessions open
//	34  heartbeats of both ends; a silent client keeps its deliveries until the broker has missed its
//	    heartbeats for long enough
//	35  the alarm: publishes are held without an error, consumers continue
//	36  persistent messages survive a restart; after a kill a classic queue marks all of them
//	    redelivered
//	38  publishes of one session keep their order
//	41  a quorum queue keeps a dead letter without a route and retries it after 180 s
//	43  expiry is never early and at most 22 ms late
//
// One more rule was measured because of an attack (S5): when a message with a forged x-death header dies,
// dead lettering of quorum queues stops on the whole node (attack.go). If it dies in a classic queue, the
// real broker stops it only for that queue; the model stops it on the whole node.
//
// Two more rules are gray failures of the broker: a hanging queue (stuck.go, with the client's reaction)
// and stopped dead lettering.
//
// chaos/selftest/conformance lists what is not modelled, and why, and what the contract leaves open. After
// a restart, a held dead letter is retried at once; this was not measured on the real broker.
//
// # A session
//
// One session is one connection with as many channels as it needs: a refused declaration or a consumer of a
// missing queue is an error and leaves the session open. Errors for which RabbitMQ closes the channel of
// publishes or deliveries (rules 5 and 26) end the session. When the process ends, its operating system
// closes the connection, and the broker detects it after one trip through the network. If that link is cut,
// the broker detects it only by the missing heartbeats. A client that detects the end of its session may,
// depending on a draw, still return buffered deliveries, although the broker has requeued them.
//
// # The wire format
//
// Most messages cross the model as Go structs. A few are encoded as the real client encodes them, and
// consumers receive the decoded body: of each shape one of the first 128 messages and then each 512th, and
// every message whose encoding loses part of its envelope. The type encoding explains why. A message that
// the core refuses to encode is Nacked, and stored nowhere.
//
// # What a message writes into the history
//
// A message has the number of its publish. Its copies share that number: in several queues, as a
// duplicate, and as a dead letter. Conservation is judged for each pair of message and queue, and
// for each pair
//
//	Enqueued = Acked + DeadLettered + Dropped + what Depths still counts (ready, unacked, held)
//
// at any moment. No other event adds or removes a copy. The sequences are:
//
//	publish without a route      PublishReturned
//	publish with n routes        Published (Count n), then Enqueued in each of the n queues at once;
//	                             a filter's delay moves its Enqueued, a duplicate adds one more
//	  to a queue that hangs      Enqueued when the queue resumes; if the queue is deleted or the
//	                             broker goes down first, Enqueued and Dropped with FaultKill
//	  delayed, queue deleted     Enqueued and Dropped with FaultQueueDeleted after the delay
//	refused by a filter (nack)   nothing but Hinted, see below
//	never arrived, not encoded,  nothing
//	or no such exchange
//	delivery                     Delivered, any number of times, then one of Acked (Fault: the cause of
//	                             an unreadable body, if any), Requeued, Rejected
//	back into the queue          Requeued, after the Delivered of the same process
//	expiry                       Expired (Fault: the cause of an unreadable body, if any), then one
//	                             end
//	rejection without requeue    Rejected (Fault: likewise), then one end
//	returned too often           Requeued, then ReturnedTooOften (Fault: likewise), then one end
//	  end with a route           DeadLettered (Queue: where it died, Count n), then n times Enqueued
//	  end without                Dropped with an empty Fault: no dead letter exchange, or, in a
//	                             classic queue, no route there, or a cycle; with FaultUnbound where
//	                             a fault removed the exchange's bindings
//	  end delayed                nothing at first: the queue holds the copy, and a later attempt
//	                             writes DeadLettered or Dropped. This is so in a quorum queue while
//	                             there is no route or its dead lettering is stopped (stuck.go),
//	                             and in any queue while a target hangs or dead lettering has ended
//	                             (attack.go)
//	lost to a filter             Enqueued, then Dropped with the filter's Fault, at once
//	lost by a kill               Dropped with FaultKill, after a Requeued if it was unsettled
//	queue deleted                Dropped for every copy, unsettled ones included, with
//	                             FaultQueueDeleted; with an empty Fault if a client or x-expires
//	                             deleted the queue. Settling those copies later writes nothing
//
// A hint that has arrived at an existing exchange also writes one Hinted for each change in it,
// before its other events. If a filter refuses it, Hinted has no number of a message.
//
// When the broker goes down it writes BrokerDown, then Requeued for every unsettled message, then
// Dropped for every message that a kill lost. Process is the publisher of Published,
// PublishReturned and Hinted, the consumer of Delivered, Acked and Requeued, and empty elsewhere.
//
// # Choices
//
// Streams: "broker/disk" (time to store), "broker/lateness" (of expiry), "broker/loss" (what a kill loses),
// "broker/late-reads" (see above), "broker/heartbeat" (phase), "broker/consumer-tick" (when a channel
// checks for overdue deliveries, before 4.3). A draw of 0 is the default.
package simbroker
