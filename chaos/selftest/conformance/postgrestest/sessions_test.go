package postgrestest_test

import (
	"context"
	"encoding/binary"
	"io"
	"maps"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// sessions is the tracer of a store whose sessions a test opens with its own parameters. A nil field changes
// nothing.
type sessions struct {
	// set are parameters of the server, which override the store's.
	set map[string]string
	// notice is called with each notice of the server.
	notice func(text string)
	// rewrite returns the statement to prepare instead of the given one.
	rewrite func(sql string) string
	// opened is called with each session.
	opened func(*pgx.Conn)
}

func (s *sessions) TraceConnectStart(ctx context.Context, d pgx.TraceConnectStartData) context.Context {
	maps.Copy(d.ConnConfig.RuntimeParams, s.set)
	if s.notice != nil {
		d.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { s.notice(n.Message) }
	}
	if s.rewrite != nil {
		d.ConnConfig.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			return pgproto3.NewFrontend(r, &rewriter{w, s.rewrite})
		}
	}
	return ctx
}

func (s *sessions) TraceConnectEnd(_ context.Context, d pgx.TraceConnectEndData) {
	if s.opened != nil && d.Err == nil {
		s.opened(d.Conn)
	}
}

func (s *sessions) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (s *sessions) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// rewriter changes the statements that a client prepares, on their way to the server.
type rewriter struct {
	to      io.Writer
	rewrite func(sql string) string
}

// Write expects whole messages, as the driver sends them.
func (r *rewriter) Write(b []byte) (int, error) {
	var out []byte
	for rest := b; len(rest) > 0; {
		// The first message of a connection has no type: it begins with its length.
		if rest[0] == 0 {
			out = append(out, rest...)
			break
		}
		const head = 5
		end := 1 + int(binary.BigEndian.Uint32(rest[1:]))
		message := rest[:end]
		rest = rest[end:]
		if message[0] == 'P' {
			var parse pgproto3.Parse
			if err := parse.Decode(message[head:]); err != nil {
				return 0, err
			}
			parse.Query = r.rewrite(parse.Query)
			var err error
			if message, err = parse.Encode(nil); err != nil {
				return 0, err
			}
		}
		out = append(out, message...)
	}
	if _, err := r.to.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
