package rabbitmqtest_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
)

// nestedTable is a table with this many levels.
func nestedTable(depth int) amqp.Table {
	table := amqp.Table{"end": int64(1)}
	for range depth {
		table = amqp.Table{"a": table}
	}
	return table
}

// Without the screening, such a message closed its consumer's connection, and returned after each reconnect:
// "Exception (501) Reason: invalid field or value inside of a frame".
func TestUnreadableHeadersKeepSessionOpen(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: quorum})
	for _, headers := range []amqp.Table{nestedTable(40), {"list": make([]any, 9000)}, nestedTable(3)} {
		if err := w.raw.PublishWithContext(t.Context(), "", queue, true, false, amqp.Publishing{
			ContentType: "application/json", MessageId: "m", DeliveryMode: amqp.Persistent, Headers: headers, Body: []byte("{}"),
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.publishConfirmed(s, w.newMessage(queue))
	c := w.startConsumer(s, queue, 10)
	// They came over two connections, so in any order.
	var replaced, unreadable, good int
	for range 4 {
		d := w.receiveDelivery(c)
		switch {
		case d.Malformed == nil:
			good++
		case string(d.Body) != "{}":
			t.Errorf("received %+v", d)
		case strings.HasPrefix(d.Malformed.Error(), "message headers"):
			replaced++
		default:
			unreadable++
		}
		c.Ack(d)
	}
	if replaced != 2 || unreadable != 1 || good != 1 || s.Closed() {
		t.Errorf("%d with replaced headers, %d that can't be read otherwise, %d that can; session closed: %v", replaced, unreadable, good, s.Closed())
	}
}
