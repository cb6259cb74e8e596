package netproxy

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// wholeMessage is a rewriter that holds bytes back until it has a large message.
type wholeMessage struct{ kept []byte }

const wholeSize = 262_300

func (w *wholeMessage) rewrite(b []byte) (out []byte) {
	w.kept = append(w.kept, b...)
	n := len(w.kept) / wholeSize * wholeSize
	out, w.kept = bytes.Clone(w.kept[:n]), w.kept[n:]
	return out
}

// Held bytes that are released as one large chunk arrive complete, although toxiproxy loses the end of a
// chunk that is slightly longer than its buffer if the next chunk is already waiting.
func TestHeldLargeMessagesArriveWhole(t *testing.T) {
	sent := make([]byte, 200*wholeSize)
	for i := range sent {
		sent[i] = byte(i / 251)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write(sent)
		_ = c.Close()
	}()
	links := New()
	t.Cleanup(links.Close)
	l, err := links.Link("large", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l.Rewrite(In, func() Rewriter { return new(wholeMessage).rewrite })
	c, err := net.Dial("tcp", l.Address)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes arrived, and %v", len(got), len(sent), err)
	}
}
