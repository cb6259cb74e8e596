package simbroker

import "time"

// Both libraries send heartbeat frames every half interval. The model sends no frames: at each beat of a
// session, both ends check whether the other's frame would have arrived.
//
// The broker gives up on a peer three intervals after its last frame, which is 2.5 to 3 after the
// silence began. The client gives up one and a half intervals after the last, which is its
// library's read timeout.
const (
	brokerBeats = 6 // half intervals
	clientBeats = 3
)

// beat is the heartbeat timer of one session.
type beat struct{ s *session }

// startHeartbeat starts the session's heartbeat at a random phase.
func (s *session) startHeartbeat() {
	if s.heartbeat <= 0 {
		return
	}
	s.lastHeard = s.b.k.Now()
	s.b.k.AfterEvent(s.b.k.Stream("broker/heartbeat").Duration(0, s.heartbeat/2), beat{s})
}

// Fire makes one beat. It is the last one if both ends are closed.
func (be beat) Fire() {
	s := be.s
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
	s.b.k.AfterEvent(half, be)
}

// beatAtBroker handles the broker's reaction to the client's silence: a paused, frozen or ended process
// sends nothing, and a cut hides its frames.
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

// beatAtClient handles the client's reaction to the broker's silence. For a frozen process no time passes,
// and a paused one can't act.
func (s *session) beatAtClient(now, half time.Duration) {
	switch {
	case s.p.Frozen():
		s.lastHeard = now
	case s.conn.ServerOpen() && s.conn.ReachesClient():
		s.lastHeard = now
	case now-s.lastHeard >= clientBeats*half && !s.p.Paused():
		s.conn.TouchClientward()
		s.endRemotely()
		return
	}
	if !s.p.Frozen() && !s.p.Paused() {
		s.endIfLate()
	}
}
