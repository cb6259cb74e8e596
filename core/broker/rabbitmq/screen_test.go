package rabbitmq

import (
	"bytes"
	"net"
	"testing"
	"testing/iotest"
)

// textConn is a connection that delivers a text.
type textConn struct {
	net.Conn
	from *bytes.Reader
}

func (t textConn) Read(b []byte) (int, error) { return t.from.Read(b) }

// Everything except headers passes unchanged, regardless of how large the reads are.
func TestScreenPassesOtherBytesUnchanged(t *testing.T) {
	frames := append([]byte{frameMethod, 0, 1, 0, 0, 0, 3}, "abc\xce"...)
	frames = append(append(frames, frameHeader, 0, 1, 0, 0, 0, 5), "short\xce"...)
	frames = append(append(frames, frameHeartbeat, 0, 0, 0, 0, 0, 0), 0xce)
	for _, all := range [][]byte{frames, []byte("AMQP\x00\x00\x09\x01 and more"), {0x16, 3, 1, 0, 0}} {
		if err := iotest.TestReader(newScreenedConn(textConn{from: bytes.NewReader(all)}), all); err != nil {
			t.Error(err)
		}
	}
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x20\x00\x00\x00\x00\x04\x01aFx"))
	f.Fuzz(func(t *testing.T, header []byte) {
		once := screenHeader(header)
		if !bytes.Equal(screenHeader(once), once) {
			t.Errorf("%q is screened twice", header)
		}
	})
}
