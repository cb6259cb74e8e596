package rabbitmqtest_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
)

// A reader of the error types the command that it quotes.
func TestSuggestedCommandDeletesQueue(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		if !w.mq.Server.Private() {
			t.Skip("runs rabbitmqctl on the node")
		}
		s := w.openSession(rabbitmq.Options{})
		q := broker.Queue{Name: w.objectName("q"), Type: queueType, TTL: time.Minute}
		if err := s.Declare(w.contextWithin(patience), broker.Topology{Queues: []broker.Queue{q}}); err != nil {
			t.Fatal(err)
		}
		q.TTL = time.Hour
		err := s.Declare(w.contextWithin(patience), broker.Topology{Queues: []broker.Queue{q}})
		command := regexp.MustCompile("`rabbitmqctl (delete_queue [^`]*)`").FindStringSubmatch(err.Error())
		if command == nil {
			t.Fatalf("the error names no command: %v", err)
		}
		if out, err := w.mq.Server.Ctl(t.Context(), append(strings.Fields(command[1]), "-p", w.mq.Vhost)...); err != nil {
			t.Fatalf("rabbitmqctl %s: %v\n%s", command[1], err, out)
		}
		if err := s.Declare(w.contextWithin(patience), broker.Topology{Queues: []broker.Queue{q}}); err != nil {
			t.Errorf("after the command: %v", err)
		}
	})
}
