package netproxy

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// Rewriter receives the bytes of one direction of a connection, in order but in pieces of any size, and
// returns their replacement. It may hold bytes back until it receives more.
type Rewriter func(b []byte) []byte

// gate controls one direction of all connections of a link.
type gate struct {
	key string
	// rewriter creates the rewriter of one connection; nil for none.
	rewriter atomic.Pointer[func() Rewriter]

	mu      sync.Mutex
	effects []*Effect
	// changed is closed when an effect ends.
	changed chan struct{}
	opened  bool
	// A Silence has broken all connections up to this number.
	broken int
}

// gateToxic makes toxiproxy run a gate. Toxiproxy creates toxics from JSON, so a toxic finds its gate by key.
type gateToxic struct {
	Key string `json:"key"`
}

// Each breakEvery bytes of a chunk give a Break effect one chance to cut the connection.
const breakEvery = 64

// longestChunk is the size of toxiproxy's reads. Bytes that a rewriter held back make chunks longer.
// Toxiproxy loses the end of a chunk that is slightly longer than its buffer if the next chunk is already
// waiting (stream.ChanReader.Read).
const longestChunk = 32 << 10

const gateType = "handoff_gate"

// gates holds all gates in use.
var gates struct {
	sync.Mutex
	last  int
	byKey map[string]*gate
	// connections numbers the connections of all gates, from 1.
	connections int
}

func init() { toxics.Register(gateType, new(gateToxic)) }

func newGate() *gate {
	g := &gate{changed: make(chan struct{})}
	gates.Lock()
	defer gates.Unlock()
	gates.last++
	g.key = strconv.Itoa(gates.last)
	if gates.byKey == nil {
		gates.byKey = make(map[string]*gate)
	}
	gates.byKey[g.key] = g
	return g
}

// endAllEffects ends every effect, and prevents new effects.
func (g *gate) endAllEffects() {
	gates.Lock()
	delete(gates.byKey, g.key)
	gates.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.effects, g.opened = nil, true
	g.wakeWaiters()
}

func (g *gate) beginEffect(e *Effect) (end func()) {
	gates.Lock()
	e.last = gates.connections
	gates.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.opened {
		g.effects = append(g.effects, e)
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.effects = slices.DeleteFunc(g.effects, func(other *Effect) bool { return other == e })
		if e.Silence {
			g.broken = max(g.broken, e.last)
		}
		g.wakeWaiters()
	}
}

// wakeWaiters makes waiting connections repeat their check. g.mu must be held.
func (g *gate) wakeWaiters() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// currentEffects returns the current effects, the number of the last broken connection, and a channel that is
// closed when an effect ends.
func (g *gate) currentEffects() ([]*Effect, int, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.effects), g.broken, g.changed
}

// connection is a gate's state for one connection.
type connection struct {
	number   int
	rewriter Rewriter
	begun    bool
}

// NewState implements toxics.StatefulToxic.
func (gt *gateToxic) NewState() any {
	gates.Lock()
	defer gates.Unlock()
	gates.connections++
	return &connection{number: gates.connections}
}

// Pipe implements toxics.Toxic. No toxic is ever added after it, so nothing interrupts it while it holds
// bytes back.
func (gt *gateToxic) Pipe(stub *toxics.ToxicStub) {
	gates.Lock()
	g := gates.byKey[gt.Key]
	gates.Unlock()
	state, _ := stub.State.(*connection)
	if g == nil || state == nil {
		stub.Close()
		return
	}
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if !g.passChunk(state, chunk) {
				stub.Close()
				return
			}
			for part := range slices.Chunk(chunk.Data, longestChunk) {
				stub.Output <- &stream.StreamChunk{Data: part, Timestamp: chunk.Timestamp}
			}
		}
	}
}

// passChunk applies the current effects to a chunk, or to the end of the stream if chunk is nil. It returns
// false if the connection must end.
func (g *gate) passChunk(state *connection, chunk *stream.StreamChunk) bool {
	effects, broken := g.awaitRelease(state, chunk != nil)
	if chunk == nil || broken {
		return false
	}
	due := chunk.Timestamp
	for _, e := range effects {
		switch {
		case e.Delay != nil:
			due = due.Add(e.Delay())
			e.reportTouch()
		case e.Break != nil:
			// Draw roughly once for each frame or call that the bytes may contain.
			for range 1 + len(chunk.Data)/breakEvery {
				if e.Break() {
					e.reportTouch()
					return false
				}
			}
		case e.Each != nil:
			due = laterTime(due, time.Now().Add(e.Each()))
			e.reportTouch()
		}
	}
	time.Sleep(time.Until(due))
	if !state.begun {
		state.begun = true
		if rewriter := g.rewriter.Load(); rewriter != nil {
			state.rewriter = (*rewriter)()
		}
	}
	if state.rewriter != nil {
		chunk.Data = state.rewriter(chunk.Data)
	}
	return true
}

func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// awaitRelease waits until no effect holds back the connection's bytes. It returns the current effects, and
// whether the connection is broken. It also holds back the end of a silent connection, without counting that
// as an effect of the silence.
func (g *gate) awaitRelease(state *connection, bytes bool) (effects []*Effect, broken bool) {
	for {
		effects, last, changed := g.currentEffects()
		held := false
		for _, e := range effects {
			if silent := e.Silence && state.number <= e.last; e.Hold || silent {
				held = true
				if bytes || !silent {
					e.reportTouch()
				}
			}
		}
		if !held {
			return effects, state.number <= last
		}
		<-changed
	}
}

func (e *Effect) reportTouch() {
	if e.Touch != nil {
		e.Touch()
	}
}
