package simbroker

import "time"

// Heartbeat frames go every half interval in both directions, as both libraries send them. They are
// not frames here: at each beat of a session both ends look at whether the other's would have come.
//
// The broker gives a peer up three intervals after the last one, which is 2.5 to 3 after the silence
// began; the client one and a half after the last, which is how long its library reads.
const (
	brokerBeats = 6 // half intervals
	clientBeats = 3
)

// beat is the heartbeat of one session.
type beat struct{ s *session }

// startHeartbeat starts at a drawn phase.
func (s *session) startHeartbeat() {
	if s.heartbeat <= 0 {
		return
	}
	s.lastHeard = s.b.k.Now()
	s.b.k.AfterEvent(s.b.k.Stream("broker/heartbeat").Duration(0, s.heartbeat/2), beat{s})
}

// Fire is one beat. It is the last one when neither end lives.
func (h beat) Fire() {
	s := h.s
	half := s.heartbeat / 2
	now := s.b.k.Now()
	if !s.peer.closed {
		s.beatAtBroker(now, half)
	}
	if !s.closed && s.p.Alive() {
		s.beatAtClient(now, half)
	} else if s.peer.closed {
		return
	}
	s.b.k.AfterEvent(half, h)
}

// beatAtBroker is what the broker makes of the client's silence: a process that is stopped, stands
// still or is gone sends nothing, and a cut hides what it sends.
func (s *session) beatAtBroker(now, half time.Duration) {
	speaks := s.conn.ClientOpen() && s.p.Alive() && !s.p.Paused() && !s.p.Frozen()
	switch {
	case speaks && s.conn.ReachesServer():
		s.peer.lastHeard = now
	case now-s.peer.lastHeard >= brokerBeats*half:
		s.conn.TouchServerward()
		s.peer.close()
	}
}

// beatAtClient is what the client makes of the broker's silence. Its clock stands while it is frozen,
// and while it is stopped it can't act.
func (s *session) beatAtClient(now, half time.Duration) {
	switch {
	case s.p.Frozen():
		s.lastHeard = now
	case s.conn.ServerOpen() && s.conn.ReachesClient():
		s.lastHeard = now
	case now-s.lastHeard >= clientBeats*half && !s.p.Paused():
		s.conn.TouchClientward()
		s.end()
	case len(s.late) > 0 && !s.p.Paused():
		s.endIfLate()
	}
}
