package rabbitmq

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"net"
)

// screenedConn is a connection on which no message can end the session. The AMQP library closes a connection
// over headers that it can't read: nested more than 32 deep, or more than 8,192 in one table. RabbitMQ
// accepts and delivers such headers, and redelivers them after each reconnect. One such message would end
// every consumer of its queue, permanently. So screenedConn replaces them with one that marks the message as
// unreadable.
//
// Below TLS no frames are visible, and everything passes unchecked.
type screenedConn struct {
	net.Conn
	in *bufio.Reader
	// ready holds the bytes to return next. passing is the number of bytes of the frame that follow them
	// unchanged.
	ready   []byte
	passing int
}

// headerUnreadable marks a message whose headers were replaced.
const headerUnreadable = "x-handoff-unreadable"

// The frame types of AMQP 0-9-1, and the number of bytes before a frame's payload.
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	framePrefix    = 7
	// longestHeader is larger than the largest frame that can be negotiated.
	longestHeader = 1 << 20
)

func newScreenedConn(c net.Conn) *screenedConn {
	return &screenedConn{Conn: c, in: bufio.NewReaderSize(c, 64<<10)}
}

func (s *screenedConn) Read(p []byte) (int, error) {
	if len(s.ready) == 0 && s.passing == 0 {
		if err := s.readNextFrame(); err != nil {
			return 0, err
		}
	}
	if len(s.ready) > 0 {
		n := copy(p, s.ready)
		s.ready = s.ready[n:]
		return n, nil
	}
	n, err := s.in.Read(p[:min(len(p), s.passing)])
	s.passing -= n
	return n, err
}

// readNextFrame reads the beginning of a frame, and the rest if it has headers.
func (s *screenedConn) readNextFrame() error {
	first, err := s.in.Peek(1)
	if err != nil {
		return err
	}
	switch first[0] {
	case frameMethod, frameHeader, frameBody, frameHeartbeat:
	default:
		// This is not a frame: the library must report that.
		s.passing = math.MaxInt
		return nil
	}
	prefix := make([]byte, framePrefix)
	if _, err := io.ReadFull(s.in, prefix); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(prefix[3:])
	if prefix[0] != frameHeader || size > longestHeader {
		s.ready, s.passing = prefix, int(size)+1
		return nil
	}
	payload := make([]byte, size+1) // including the frame-end byte
	if _, err := io.ReadFull(s.in, payload); err != nil {
		return err
	}
	clean := screenHeader(payload[:size])
	binary.BigEndian.PutUint32(prefix[3:], uint32(len(clean))) //nolint:gosec // shorter than the original, or a little longer
	s.ready = append(append(prefix, clean...), payload[size])
	return nil
}

// The number of bytes before the properties in a content header (class, weight, body length, flags), and some
// of the flags.
const (
	contentPrefix    = 2 + 2 + 8 + 2
	flagContentType  = 1 << 15
	flagEncoding     = 1 << 14
	flagHeaders      = 1 << 13
	flagContinuation = 1
)

// screenHeader returns a content header whose table of headers the library can read.
func screenHeader(header []byte) []byte {
	if len(header) < contentPrefix {
		return header
	}
	flags := binary.BigEndian.Uint16(header[contentPrefix-2:])
	if flags&flagHeaders == 0 || flags&flagContinuation != 0 {
		return header
	}
	at := contentPrefix
	for _, flag := range []uint16{flagContentType, flagEncoding} {
		if flags&flag == 0 {
			continue
		}
		if at >= len(header) {
			return header
		}
		at += 1 + int(header[at])
	}
	if at+4 > len(header) {
		return header
	}
	size := int(binary.BigEndian.Uint32(header[at:]))
	end := at + 4 + size
	if end > len(header) || canReadFields(header[at+4:end], true, 0) {
		return header
	}
	table := append([]byte{byte(len(headerUnreadable))}, headerUnreadable...)
	table = append(table, 't', 1)
	clean := binary.BigEndian.AppendUint32(append([]byte(nil), header[:at]...), uint32(len(table))) //nolint:gosec // a constant
	return append(append(clean, table...), header[end:]...)
}

// RabbitMQ and its tools stay far below these bounds, and the library accepts more.
const (
	deepestField = 16
	mostFields   = 1024
)

// canReadFields reports whether the library can read the fields of a table or a list.
func canReadFields(b []byte, table bool, depth int) bool {
	if depth > deepestField {
		return false
	}
	for fields := 0; len(b) > 0; fields++ {
		if fields >= mostFields {
			return false
		}
		if table {
			if len(b) < 1+int(b[0]) {
				return false
			}
			b = b[1+int(b[0]):]
		}
		n, ok := fieldLength(b, depth)
		if !ok {
			return false
		}
		b = b[n:]
	}
	return true
}

// fieldLength returns the length of the first field, including its type byte; false if the library can't read
// the field.
func fieldLength(b []byte, depth int) (n int, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	switch b[0] {
	case 'V':
		n = 1
	case 't', 'B', 'b':
		n = 2
	case 's', 'u':
		n = 3
	case 'I', 'i', 'f':
		n = 5
	case 'D':
		n = 6
	case 'l', 'd', 'T':
		n = 9
	case 'S', 'x', 'A', 'F':
		if len(b) < 5 {
			return 0, false
		}
		n = 5 + int(binary.BigEndian.Uint32(b[1:]))
		if n > len(b) || (b[0] == 'A' || b[0] == 'F') && !canReadFields(b[5:n], b[0] == 'F', depth+1) {
			return 0, false
		}
	default:
		return 0, false
	}
	return n, n <= len(b)
}
