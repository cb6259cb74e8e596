package unread

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/host"
	"handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/telemetry"
	"handoff/core/testenv"
)

// archive is a store whose first calls may fail. It accepts the outcome that it refuses only after the
// given moment.
type archive struct {
	away    int
	refuses string
	until   time.Duration
	host    host.Host
	calls   int
	kept    []store.DeadLetter
}

// hurriedHost is a host whose sleeps return at once.
type hurriedHost struct {
	host.Host
	now time.Duration
}

// Sleep implements host.Host.
func (h *hurriedHost) Sleep(ctx context.Context, d time.Duration) error {
	h.now += d
	return ctx.Err()
}

// Monotonic implements host.Host.
func (h *hurriedHost) Monotonic() time.Duration { return h.now }

func (a *archive) StoreDeadLetters(_ context.Context, ds ...store.DeadLetter) error {
	a.calls++
	if a.away--; a.away >= 0 {
		return store.ErrUnavailable
	}
	if a.host.Monotonic() < a.until && slices.ContainsFunc(ds, func(d store.DeadLetter) bool { return strings.HasSuffix(d.Outcome, a.refuses) }) {
		return errors.New("refused permanently")
	}
	a.kept = append(a.kept, ds...)
	return nil
}

// consumer records which messages were acknowledged, and how many were stored by then.
type consumer struct {
	broker.Consumer
	archive *archive
	acked   []uint64
	early   bool
	enough  int
	stop    func()
}

func (c *consumer) Ack(d broker.Delivery) {
	c.early = c.early || len(c.archive.kept) <= len(c.acked)
	if c.acked = append(c.acked, d.Tag); len(c.acked) == c.enough {
		c.stop()
	}
}

// newFixture returns a keeper over a database and a consumer. run runs it until enough messages are
// acknowledged.
func newFixture(t *testing.T, a *archive) (k *Keeper, c *consumer, out *bytes.Buffer, run func(enough int)) {
	ctx, stop := context.WithTimeout(t.Context(), testenv.Patience())
	t.Cleanup(stop)
	out = new(bytes.Buffer)
	a.host = &hurriedHost{Host: daemon.New(daemon.Options{})}
	k = New(Options{Host: a.host, Store: a, Log: slog.New(slog.NewTextHandler(out, nil)), Recorder: telemetry.Discard{}, Timeout: time.Second})
	c = &consumer{archive: a, stop: stop}
	return k, c, out, func(enough int) {
		c.enough = enough
		k.Run(ctx)
		if len(c.acked) != enough {
			t.Errorf("%d of %d acknowledged", len(c.acked), enough)
		}
	}
}

func TestMessagesAreStoredInBatchesThenAcknowledged(t *testing.T) {
	a := &archive{away: 1}
	k, c, out, run := newFixture(t, a)
	for tag := range uint64(500) {
		k.Keep(c, broker.Delivery{Tag: tag, Body: []byte("{")}, "worker.1.executions", "no JSON")
	}
	run(500)
	if c.early || len(a.kept) != 500 || a.calls > 4 || strings.Count(out.String(), "\n") > 4 {
		t.Errorf("%d stored in %d calls, acknowledged too early: %v\n%s", len(a.kept), a.calls, c.early, out)
	}
	if d := a.kept[0]; !d.Open || d.Queue != "worker.1.executions" || d.Reason != "malformed" || d.Outcome != "no JSON" || d.BodyBytes != 1 {
		t.Errorf("stored %+v", d)
	}
}

func TestRefusedMessageIsHeldUntilStored(t *testing.T) {
	for _, c := range []struct {
		name    string
		refuses string
		until   time.Duration
		outcome string
		body    string
	}{
		{"for a moment", "bad", Patience / 2, "bad", "{"},
		{"as it is", "bad", time.Hour, "unstorable: refused permanently", ""},
		{"whatever it is, for long", "", 5 * time.Minute, "unstorable: refused permanently", ""},
	} {
		a := &archive{refuses: c.refuses, until: c.until}
		k, cons, out, run := newFixture(t, a)
		for tag, why := range []string{"good", "bad", "good"} {
			k.Keep(cons, broker.Delivery{Tag: uint64(tag), Body: []byte("{")}, "q", why)
		}
		refusals := 0
		k.options.Refused = func() { refusals++ }
		run(3)
		if len(a.kept) != 3 || cons.early || refusals == 0 || !strings.Contains(out.String(), "refused by the database, held and tried again") {
			t.Errorf("%s: %d stored, acknowledged too early: %v\n%s", c.name, len(a.kept), cons.early, out)
			continue
		}
		if !slices.ContainsFunc(a.kept, func(d store.DeadLetter) bool {
			return d.Outcome == c.outcome && string(d.Body) == c.body && d.BodyBytes == 1 && d.Queue == "q" && d.Open
		}) {
			t.Errorf("%s: stored %+v", c.name, a.kept)
		}
	}
}

func TestLongBodyIsTruncated(t *testing.T) {
	a := &archive{}
	k, c, _, run := newFixture(t, a)
	k.Keep(c, broker.Delivery{Body: make([]byte, 20<<20)}, "q", "why")
	if n := cap(k.held[0].letter.Body); n > 4*store.LongestBody {
		t.Errorf("%d bytes are held", n)
	}
	run(1)
	if d := a.kept[0]; len(d.Body) != store.LongestBody || d.BodyBytes != 20<<20 {
		t.Errorf("stored %d bytes of %d", len(d.Body), d.BodyBytes)
	}
}

func TestRedeliveryReplacesHeldMessage(t *testing.T) {
	a := &archive{}
	k, c, _, run := newFixture(t, a)
	earlier := &consumer{archive: a}
	k.Keep(earlier, broker.Delivery{Tag: 1}, "q", "why")
	k.Keep(earlier, broker.Delivery{Tag: 1}, "other", "why")
	k.Keep(c, broker.Delivery{Tag: 2}, "q", "why")
	if len(k.held) != 2 {
		t.Fatalf("%d are held", len(k.held))
	}
	run(1)
	if len(earlier.acked) != 1 {
		t.Errorf("%d of the other queue acknowledged", len(earlier.acked))
	}
}
