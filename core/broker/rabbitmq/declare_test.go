package rabbitmq

import "testing"

// The argument that lifts the delivery limit makes RabbitMQ 3.10 drop messages, so a version that
// can't be read counts as old.
func TestMajorVersion(t *testing.T) {
	for version, want := range map[string]int{"3.10.8": 3, "4.0.5": 4, "4.3.6+2": 4, "10.1": 10, "": 0, "four": 0, "4": 4} {
		if got := majorVersion(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}
