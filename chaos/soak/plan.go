// Package soak holds the rules of a soak: a long run under a load that the machine sustains, while every part
// of the system is repeatedly killed, paused and cut off. The package draws the plan of the strikes, stores
// the curves in bounded memory, judges which of them are flat, and records the accepted requests and their
// ends. It does not depend on where the system runs.
//
// A strike is one fault of one part. A round strikes every part once in every way, in a random order.
package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Action is the name of the action that a soak runs.
const Action = "soak.job"

// KeyPrefix is the prefix of a soak's idempotency keys. The request's number, from 0, follows it.
const KeyPrefix = "soak/"

// The kinds of strikes.
const (
	Kill  = "kill"
	Pause = "pause"
	Cut   = "cut"
)

// Wanted is the desired number of strikes of each kind on each part.
const Wanted = 5

// Times for the strikes. slotWanted is the time for one strike and its recovery if the soak is long enough,
// leastSlot the minimum. quiet is the time without strikes at the beginning and at the end, which show a
// working system.
const (
	slotWanted = 12 * time.Second
	leastSlot  = 8 * time.Second
	quiet      = 5 * time.Second
	// mostFaults is the maximum number of faults in one scenario.
	mostFaults = 200
	// healthProbes is the link that only the executors' probes use. They are 6 s apart, so a shorter cut may
	// not affect any.
	healthProbes = "executors"
	probed       = 6200 * time.Millisecond
)

// LeastFor is the minimum duration of a soak, in which every part is killed once. MostFor is the longest
// duration whose plan fits into a scenario.
const (
	LeastFor = 60 * time.Second
	MostFor  = 144 * time.Hour
)

// Cluster is the system under test.
type Cluster struct {
	Executors int
	Workers   []string
}

// Default returns the default cluster of a soak.
func Default() Cluster {
	return Cluster{Executors: 2, Workers: []string{"shell-1", "shell-2", "shell-3"}}
}

// Strike is one strike of a plan. Its times are real, from the beginning of the load.
type Strike struct {
	At  time.Duration `json:"at"`
	For time.Duration `json:"for"`
	// What is Kill, Pause or Cut. Part names a process, a server or a link.
	What string `json:"what"`
	Part string `json:"part"`
	// faults are the strike's faults in the scenario, without times.
	faults []string
	// ends is the key, in a scenario, for the duration of the faults.
	ends string
}

// Faults returns the number of the strike's faults in the scenario.
func (s *Strike) Faults() int { return len(s.faults) }

// Plan is a randomly drawn plan of a soak. The same seed, duration and cluster give the same plan.
type Plan struct {
	Seed    uint64
	For     time.Duration
	Cluster Cluster
	// Rounds is the number of complete rounds. 0 means that there was only time to kill every part once.
	Rounds  int
	Strikes []Strike
}

// roundStrikes returns one strike of every kind on every part, without times.
func (c *Cluster) roundStrikes() (kills, others []Strike) {
	var processes []string
	for n := range c.Executors {
		processes = append(processes, fmt.Sprintf("executor-%d", n+1))
	}
	processes = append(processes, c.Workers...)
	for _, p := range processes {
		kills = append(kills, Strike{What: Kill, Part: p, faults: []string{"crash: " + p}, ends: "restart_after"})
		others = append(others, Strike{What: Pause, Part: p, faults: []string{"pause: " + p}, ends: "for"})
		ends := []string{"database", "broker"}
		if slices.Contains(c.Workers, p) {
			ends = append(ends, healthProbes)
		}
		for _, end := range ends {
			others = append(others, Strike{What: Cut, Part: p + " – " + end, faults: []string{partitionFault(p, end)}, ends: "for"})
		}
	}
	for _, server := range []string{"database", "broker"} {
		kills = append(kills, Strike{What: Kill, Part: server, faults: []string{server + ": kill"}, ends: "for"})
		// There is no kind of fault that pauses a server. Cutting it off from all processes has the same
		// effect: connections stay open, and nothing answers.
		others = append(others, Strike{What: Pause, Part: server, faults: []string{partitionFault("every executor", server), partitionFault("every worker", server)}, ends: "for"})
	}
	return kills, others
}

func partitionFault(process, end string) string {
	return fmt.Sprintf("partition: {cut: %s, from: [%s], direction: both}", process, end)
}

// Draw draws the plan of a soak. It has as many rounds as the time permits: with slots of 12 s if there is
// time for five rounds, otherwise with shorter slots and at most five rounds.
func Draw(seed uint64, lasts time.Duration, c Cluster) *Plan {
	p := &Plan{Seed: seed, For: lasts, Cluster: c}
	r := rand.New(rand.NewPCG(seed, uint64(lasts)))
	kills, others := c.roundStrikes()
	round := slices.Concat(kills, others)
	faults := 0
	for i := range round {
		faults += round[i].Faults()
	}
	room := lasts - 2*quiet
	fit := func(slot time.Duration) int { return int(room / (slot * time.Duration(len(round)))) }
	p.Rounds = fit(slotWanted)
	if p.Rounds < Wanted {
		p.Rounds = min(Wanted, fit(leastSlot))
	}
	p.Rounds = min(p.Rounds, mostFaults/faults)
	for range p.Rounds {
		p.Strikes = append(p.Strikes, shuffledStrikes(r, round)...)
	}
	if p.Rounds == 0 {
		p.Strikes = shuffledStrikes(r, kills)
		if more := int(room/leastSlot) - len(kills); more > 0 {
			p.Strikes = append(p.Strikes, shuffledStrikes(r, others)[:min(more, len(others))]...)
		}
	}
	slot := room / time.Duration(len(p.Strikes))
	for i := range p.Strikes {
		s := &p.Strikes[i]
		s.For = randomDuration(r, time.Second, min(slot/2, 8*time.Second))
		if strings.HasSuffix(s.Part, " – "+healthProbes) {
			s.For = min(max(s.For, probed), slot*4/5).Round(100 * time.Millisecond)
		}
		if s.What == Kill {
			s.For = randomDuration(r, 500*time.Millisecond, min(slot/3, 3*time.Second))
		}
		s.At = (quiet + time.Duration(i)*slot + randomDuration(r, 0, slot/8)).Round(time.Millisecond)
	}
	return p
}

func shuffledStrikes(r *rand.Rand, of []Strike) []Strike {
	of = slices.Clone(of)
	r.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	return of
}

func randomDuration(r *rand.Rand, least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return (least + time.Duration(r.Int64N(int64(most-least)))).Round(100 * time.Millisecond)
}

// Short describes how the plan falls short of the wanted number of strikes; empty if it does not.
func (p *Plan) Short() string {
	switch {
	case p.Rounds >= Wanted:
		return ""
	case p.Rounds == 0:
		return fmt.Sprintf("%v is too short for a round: every part is killed once, and %d strikes of other kinds follow", p.For, len(p.Strikes)-p.Cluster.Executors-len(p.Cluster.Workers)-2)
	}
	return fmt.Sprintf("%v has room for %d of %d strikes of every kind on every part", p.For, p.Rounds, Wanted)
}

// YAML returns the plan as a scenario whose times are the real times divided by scale. `chaos run` accepts it
// too, simulated and real. Its workload is for those runs; a soak submits at the rate that the machine
// sustains.
func (p *Plan) YAML(scale float64) []byte {
	var b strings.Builder
	long := func(d time.Duration) string {
		return fmt.Sprintf("%dms", int64(float64(d)/scale)/int64(time.Millisecond))
	}
	count := min(20_000, int(float64(p.For)/scale/float64(time.Second)))
	fmt.Fprintf(&b, `# The plan of a soak: chaos soak --for %v --seed %d
# Times are those of a scenario; a soak runs it at a time scale of %v.
name: soak
about: >-
  Every part is killed, paused and cut off in a drawn order, one strike after the other, with time to recover. %d rounds.
profile: hardened
cluster:
  executors: %d
  workers:
`, p.For, p.Seed, scale, p.Rounds, p.Cluster.Executors)
	for _, w := range p.Cluster.Workers {
		fmt.Fprintf(&b, "    %s: {runtimes: [shell]}\n", w)
	}
	fmt.Fprintf(&b, `actions:
  %s: {runtime: shell, takes: {uniform: [50ms, 1s]}, fails: {rate: 2%%, reason: connection reset}, max_retries: 3}
workload:
  - {action: %[1]s, count: %d, every: 1s}
faults:
`, Action, count)
	for i := range p.Strikes {
		s := &p.Strikes[i]
		for _, f := range s.faults {
			fmt.Fprintf(&b, "  - {when: {at: %s}, %s, %s: %s}\n", long(s.At), f, s.ends, long(s.For))
		}
	}
	b.WriteString("expect:\n  invariants: all\n  executions: {stuck: 0}\n")
	return []byte(b.String())
}
