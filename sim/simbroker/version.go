package simbroker

import "fmt"

// Versions are the releases of RabbitMQ that the model knows, oldest first. What clients see differs between them in the
// quorum queues mostly; each stands for the releases up to the next one.
func Versions() []string { return []string{"3.10", "4.0", "4.3"} }

// Like is the one of Versions that a server of a version behaves like, as far as it is known: the newest that is not newer.
func Like(version string) string {
	at := Versions()[0]
	for _, v := range Versions() {
		if !older(version, v) {
			at = v
		}
	}
	return at
}

// older says that a version comes before another, by their first two numbers.
func older(version, than string) bool {
	var major, minor, ofMajor, ofMinor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor) // what can't be read is older than all
	_, _ = fmt.Sscanf(than, "%d.%d", &ofMajor, &ofMinor)
	return major < ofMajor || major == ofMajor && minor < ofMinor
}

// behaviour is what releases differ in.
type behaviour struct {
	// ordersReturns: also in a queue without a delivery limit, what a consumer requeues is like what the end of a session
	// returns; before 4.3 it comes last there.
	ordersReturns bool
	// marksDead: a dead letter of a quorum queue that a consumer had rejected, or that the end of a session had returned, is
	// redelivered where it goes. marksRequeued: so is one that had been requeued.
	marksDead, marksRequeued bool
	// marksClassic: so is a dead letter of a classic queue, unless a consumer waits for it where it goes.
	marksClassic bool
	// newestFirst: x-death is strictly newest first; until 4.0 each death turned the older entries round.
	newestFirst bool
	// deliveryLimit is how often a message may come back to a quorum queue that was declared without a limit; 0 is for ever.
	deliveryLimit int
	// readsDeaths: an x-death header that a client has written is read when its message dies; see poisoned.
	readsDeaths bool
	// queuesTimeOut: quorum queues have a consumer timeout, and neither channels nor classic queues have one.
	queuesTimeOut bool
}

// defaultLimit is the delivery limit of quorum queues that name none, from 4.0 on.
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
