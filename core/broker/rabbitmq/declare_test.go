package rabbitmq

import "testing"

// RabbitMQ 3.10 drops messages if the delivery limit is lifted, so an unreadable version is taken for an old
// one.
func TestUnreadableBrokerVersionCountsAsOld(t *testing.T) {
	for version, want := range map[string]int{"3.10.8": 3, "4.0.5": 4, "4.3.6+2": 4, "10.1": 10, "": 0, "four": 0, "4": 4} {
		if got := majorVersion(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}
