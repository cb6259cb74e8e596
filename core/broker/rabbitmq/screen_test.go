package rabbitmq

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// nested is a table in a table, so many deep.
func nested(depth int) amqp.Table {
	table := amqp.Table{"end": int64(1)}
	for range depth {
		table = amqp.Table{"a": table}
	}
	return table
}

// Before it was screened, such a message closed the connection of whoever consumed it, and came again after each
// reconnect: "Exception (501) Reason: invalid field or value inside of a frame".
func TestHeadersThatTheLibraryCanNotReadEndNoSession(t *testing.T) {
	w := newWorld(t)
	s := w.connect(Options{})
	queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: typeQuorum})
	for _, headers := range []amqp.Table{nested(40), {"list": make([]any, 9000)}, nested(3)} {
		if err := w.raw.PublishWithContext(t.Context(), "", queue, true, false, amqp.Publishing{
			ContentType: "application/json", MessageId: "m", DeliveryMode: amqp.Persistent, Headers: headers, Body: []byte("{}"),
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.publish(s, w.message(queue))
	c := w.consume(s, queue, 10)
	// They came over two connections, in any order.
	var replaced, unreadable, good int
	for range 4 {
		d := w.receive(c)
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

// textConn is a connection from which a text is read.
type textConn struct {
	net.Conn
	from *bytes.Reader
}

func (p textConn) Read(b []byte) (int, error) { return p.from.Read(b) }

// What has nothing to do with headers passes as it is, whatever the sizes of the reads.
func TestWhatIsNotScreenedPassesAsItIs(t *testing.T) {
	frames := append([]byte{frameMethod, 0, 1, 0, 0, 0, 3}, "abc\xce"...)
	frames = append(append(frames, frameHeader, 0, 1, 0, 0, 0, 5), "short\xce"...)
	frames = append(append(frames, frameHeartbeat, 0, 0, 0, 0, 0, 0), 0xce)
	for _, all := range [][]byte{frames, []byte("AMQP\x00\x00\x09\x01 and more"), {0x16, 3, 1, 0, 0}} {
		if err := iotest.TestReader(newScreened(textConn{from: bytes.NewReader(all)}), all); err != nil {
			t.Error(err)
		}
	}
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x20\x00\x00\x00\x00\x04\x01aFx"))
	f.Fuzz(func(t *testing.T, header []byte) {
		once := screen(header)
		if !bytes.Equal(screen(once), once) {
			t.Errorf("%q is screened twice", header)
		}
	})
}
