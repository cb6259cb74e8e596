package simbroker

import "fmt"

// Versions returns the releases of RabbitMQ that the model knows, oldest first. Clients see differences
// mostly in quorum queues. Each entry stands for all releases up to the next entry.
func Versions() []string { return []string{"3.10", "4.0", "4.3"} }

// Like returns the entry of Versions that models a server's release: the newest entry that is not newer
// than the server.
func Like(version string) string {
	at := Versions()[0]
	for _, v := range Versions() {
		if !isOlder(version, v) {
			at = v
		}
	}
	return at
}

// isOlder reports whether a version precedes another version, judging by their first two numbers.
func isOlder(version, than string) bool {
	var major, minor, ofMajor, ofMinor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // an unreadable version counts as the oldest
	_, _ = fmt.Sscanf(than, "%d.%d", &ofMajor, &ofMinor)
	return major < ofMajor || major == ofMajor && minor < ofMinor
}

// behaviour is the set of differences between releases.
type behaviour struct {
	// ordersReturns: even in a queue with KeepsReturned, a message that a consumer requeues is treated like a
	// message of an ended session; before 4.3 it comes last in such a queue.
	ordersReturns bool
	// marksDead: a dead letter of a quorum queue counts as redelivered in its next queue, if a
	// consumer had rejected it or the end of a session had returned it. marksRequeued: the same if
	// it had been requeued.
	marksDead, marksRequeued bool
	// marksClassic: the same for a dead letter of a classic queue, unless a consumer waits for it
	// in the next queue.
	marksClassic bool
	// newestFirst: x-death is strictly newest first; before 4.0 each death reverses the older
	// entries.
	newestFirst bool
	// deliveryLimit is how often a message may return to a quorum queue that was declared without
	// KeepsReturned. 0 means no limit.
	deliveryLimit int
	// readsDeaths: an x-death header that a client has written is read when its message dies; see
	// isPoisoned.
	readsDeaths bool
	// queuesTimeOut: quorum queues have a consumer timeout; channels and classic queues have none.
	queuesTimeOut bool
}

// defaultLimit is the delivery limit of quorum queues that were declared without one, from 4.0 on.
const defaultLimit = 20

func behaviourOf(version string) behaviour {
	switch version {
	case "", "3.10":
		return behaviour{readsDeaths: true}
	case "4.0":
		return behaviour{marksDead: true, newestFirst: true, deliveryLimit: defaultLimit}
	case "4.3":
		return behaviour{
			ordersReturns: true, marksDead: true, marksRequeued: true, marksClassic: true, newestFirst: true, deliveryLimit: defaultLimit,
			queuesTimeOut: true,
		}
	}
	panic(fmt.Sprintf("simbroker: RabbitMQ %q is not modelled", version))
}
