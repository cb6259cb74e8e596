package worker

import (
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/host"
)

// manualHost is a host whose monotonic clock the test sets. Its wall clock goes backwards.
type manualHost struct {
	host.Host
	now  time.Duration
	sets int
}

func (m *manualHost) Monotonic() time.Duration { return m.now }

func (m *manualHost) Now() time.Time {
	m.sets++
	return time.Unix(1_000_000_000-int64(m.sets)*3600, 0)
}

// The right to run lasts for the lease less the margin, from the start of the latest renewal. An earlier
// renewal that is reported late does not shorten it, and no renewal revives a worker that has fenced itself.
func TestLeaseCountsFromLatestRenewal(t *testing.T) {
	c := config.Default(config.Hardened).Worker
	c.FenceMargin, c.KillGrace = 6*time.Second, 3*time.Second
	const right = 24 * time.Second // the lease of 30 s less the margin of 6 s
	h := &manualHost{now: time.Hour}
	l := newLease(h, c, time.Hour)
	for _, step := range []struct{ at, sent, latest time.Duration }{
		{0, 0, 0},
		{10 * time.Second, 9 * time.Second, 9 * time.Second},
		{20 * time.Second, 5 * time.Second, 9 * time.Second},
		{9*time.Second + right - 1, 20 * time.Second, 20 * time.Second},
	} {
		h.now = time.Hour + step.at
		if l.checkFence() || !l.renewFrom(time.Hour+step.sent) {
			t.Errorf("at %v a renewal sent at %v does not count", step.at, step.sent)
		}
		if fence, kill := l.fenceDeadlines(); fence != time.Hour+step.latest+right || kill != fence+c.KillGrace {
			t.Errorf("after the renewal sent at %v it fences itself at %v and kills at %v", step.sent, fence-time.Hour, kill-time.Hour)
		}
	}
	if h.now = time.Hour + 20*time.Second + right - 1; l.checkFence() {
		t.Error("it fences itself too early")
	}
	if h.now++; !l.checkFence() || l.renewFrom(h.now) || !l.checkFence() {
		t.Error("its right does not end, or comes back")
	}
}
