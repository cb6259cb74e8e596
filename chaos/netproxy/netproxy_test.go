package netproxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

func frame(kind byte, channel uint16, payload []byte) []byte {
	f := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	f = binary.BigEndian.AppendUint32(f, uint32(len(payload)))
	return append(append(f, payload...), 0xCE)
}

func short(s string) []byte { return append([]byte{byte(len(s))}, s...) }

// published returns the frames of a published message: method, header with headers, id and type, and a body
// in two frames.
func published(channel uint16, exchange, key, id, kind, body string) []byte {
	method := slices.Concat(basicPublish, []byte{0, 0}, short(exchange), short(key), []byte{1})
	head := append([]byte{0, 60, 0, 0}, binary.BigEndian.AppendUint64(nil, uint64(len(body)))...)
	head = binary.BigEndian.AppendUint16(head, hasContentType|hasHeaders|hasDeliveryMode|hasMessageID|hasTimestamp|hasType)
	head = slices.Concat(head, short("application/json"), []byte{0, 0, 0, 3, 1, 2, 3}, []byte{2}, short(id), make([]byte, 8), short(kind))
	half := len(body) / 2
	return slices.Concat(frame(frameMethod, channel, method), frame(frameHead, channel, head),
		frame(frameBody, channel, []byte(body[:half])), frame(frameBody, channel, []byte(body[half:])))
}

// However the bytes are split, only the intended parts of the messages change.
func TestPublishesRewritesOnlyPublishes(t *testing.T) {
	greet := []byte("AMQP\x00\x00\x09\x01")
	other := frame(frameMethod, 1, []byte{0, 10, 0, 11, 1, 2, 3})
	beat := frame(8, 0, nil)
	in := slices.Concat(greet, other, published(1, "ex", "a", "m1", "execution.scheduled", `{"n":1}`), beat,
		published(2, "ex", "b", "m2", "execution.completed", `{"n":2}`), other)
	want := slices.Concat(greet, other, published(1, "", "sink", "m1", "execution.scheduled", `{"n":1}`), beat,
		published(2, "ex", "b", "m2", "execution.completed", `X"n":2}`), other)
	for size := 1; size <= len(in); size += 7 {
		var seen []string
		r := Publishes(func(p *Publish) {
			seen = append(seen, p.ID+" "+p.Type+" "+p.Key+" "+string(p.Body))
			switch p.ID {
			case "m1":
				p.Exchange, p.Key = "", "sink"
			case "m2":
				p.Body[0] = 'X'
			}
		})
		var out []byte
		for piece := range slices.Chunk(in, size) {
			out = append(out, r(piece)...)
		}
		if !bytes.Equal(out, want) {
			t.Fatalf("in pieces of %d bytes:\n%q\nwant\n%q", size, out, want)
		}
		if !slices.Equal(seen, []string{`m1 execution.scheduled a {"n":1}`, `m2 execution.completed b {"n":2}`}) {
			t.Fatalf("in pieces of %d bytes the messages were read as %q", size, seen)
		}
	}
}

// echo starts a server that echoes every byte, and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func connect(t *testing.T) (*Link, net.Conn) {
	t.Helper()
	w := New()
	l, err := w.Link(t.Name(), echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	c, err := net.Dial("tcp", l.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return l, c
}

// say sends a byte and returns the time until its echo, or an error if no echo arrives in time.
func say(t *testing.T, c net.Conn, within time.Duration) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	_ = c.SetDeadline(began.Add(within))
	if _, err := c.Write([]byte("x")); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return time.Since(began), err
}

// A held delivery is released with the next bytes, before later deliveries. Everything else always passes.
func TestDeliveriesHoldsMessages(t *testing.T) {
	delivered := func(n byte) []byte {
		head := append([]byte{0, 60, 0, 0}, binary.BigEndian.AppendUint64(nil, 1)...)
		return slices.Concat(frame(frameMethod, 1, []byte{0, 60, 0, 60, n}), frame(frameHead, 1, append(head, 0, 0)), frame(frameBody, 1, []byte{n}))
	}
	beat, other := frame(8, 0, nil), frame(frameMethod, 1, []byte{0, 60, 0, 80})
	hold := false
	r := Deliveries(func() bool { return hold })
	for _, c := range []struct {
		name     string
		hold     bool
		in, want []byte
	}{
		{"before", false, delivered(1), delivered(1)},
		{"while it lasts", true, slices.Concat(delivered(2), other, delivered(3)), other},
		{"a heartbeat while it lasts", true, beat, beat},
		{"the heartbeat after it", false, beat, slices.Concat(delivered(2), delivered(3), beat)},
		{"after it", false, delivered(4), delivered(4)},
	} {
		hold = c.hold
		if got := r(c.in); !bytes.Equal(got, c.want) {
			t.Errorf("%s: %x, want %x", c.name, got, c.want)
		}
	}
}

// When a subscription is released, the later frames of its channel follow it. Other channels and queues are
// not affected.
func TestSubscriptionsHoldsFrames(t *testing.T) {
	subscribe := func(channel byte, queue string) []byte {
		return frame(frameMethod, uint16(channel), append([]byte{0, 60, 0, 20, 0, 0, byte(len(queue))}, queue+"\x00\x00\x00\x00\x00\x00"...))
	}
	beat, closing := frame(8, 0, nil), frame(frameMethod, 2, []byte{0, 20, 0, 40})
	hold := false
	r := Subscriptions(func(queue string) bool { return hold && queue == "dead" })
	for _, c := range []struct {
		name     string
		hold     bool
		in, want []byte
	}{
		{"the greeting", false, []byte("AMQP\x00\x00\x09\x01"), []byte("AMQP\x00\x00\x09\x01")},
		{"before", false, subscribe(1, "dead"), subscribe(1, "dead")},
		{"while it lasts", true, slices.Concat(subscribe(2, "dead"), subscribe(3, "other"), closing), subscribe(3, "other")},
		{"a heartbeat while it lasts", true, beat, beat},
		{"the heartbeat after it", false, beat, slices.Concat(subscribe(2, "dead"), closing, beat)},
		{"after it", false, subscribe(2, "dead"), subscribe(2, "dead")},
	} {
		hold = c.hold
		if got := r(c.in); !bytes.Equal(got, c.want) {
			t.Errorf("%s: %x, want %x", c.name, got, c.want)
		}
	}
}

func TestHeldBytesArriveAfterCut(t *testing.T) {
	for _, way := range []Direction{Out, In} {
		l, c := connect(t)
		if _, err := say(t, c, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		touched := make(chan struct{}, 100)
		heal := l.Begin(way, Effect{Hold: true, Touch: func() { touched <- struct{}{} }})
		if _, err := say(t, c, 200*time.Millisecond); err == nil {
			t.Errorf("%s: something passed a cut", way)
		}
		<-touched
		heal()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Errorf("%s: what was held did not arrive: %v", way, err)
		}
	}
}

func TestDelayBreakAndDown(t *testing.T) {
	l, c := connect(t)
	end := l.Begin(Out, Effect{Delay: func() time.Duration { return 150 * time.Millisecond }})
	if d, err := say(t, c, 5*time.Second); err != nil || d < 150*time.Millisecond {
		t.Errorf("with a delay the echo took %v, %v", d, err)
	}
	end()
	end = l.Begin(In, Effect{Break: func() bool { return true }})
	if _, err := say(t, c, 5*time.Second); err == nil {
		t.Error("a broken connection has answered")
	}
	end()
	l.Down()
	if _, err := net.Dial("tcp", l.Address); err == nil {
		t.Error("a link that is down accepts connections")
	}
	if err := l.Up(); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := say(t, c, 5*time.Second); err != nil {
		t.Errorf("a link that is up again: %v", err)
	}
}

// pour starts a server that sends each client more than all buffers on the way can hold. It signals on poured
// when a client has begun to read.
func pour(t *testing.T) (address string, poured chan struct{}) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	poured = make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				const piece = 32 << 10
				for range 512 {
					if _, err := c.Write(make([]byte, piece)); err != nil {
						break
					}
				}
				poured <- struct{}{}
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String(), poured
}

// abandoned opens a connection to an address, and closes it while bytes for it are held back.
func abandoned(t *testing.T, address string, held func()) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	held()
	if err := errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// answers reports whether a new connection to an address receives a byte in time.
func answers(t *testing.T, address string, within time.Duration) bool {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, within)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err = io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// A client that disconnects while its bytes are delayed does not block the link for other clients.
func TestDelayEndsWithAbandonedConnection(t *testing.T) {
	server, poured := pour(t)
	w := New()
	l, err := w.Link(t.Name(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	touched := make(chan struct{}, 10_000)
	end := l.Begin(In, Effect{Delay: func() time.Duration { return time.Second }, Touch: func() { touched <- struct{}{} }})
	abandoned(t, l.Address, func() { <-touched })
	end()
	if !answers(t, l.Address, 5*time.Second) {
		t.Error("the delay is over, but a new connection is not served")
	}
	<-poured
}
