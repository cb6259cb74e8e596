// Package promise judges the jobs of any queue by what the queue promises.
//
// A Book hears the lines of a public history (chaos/jobhistory) in the order of their times and keeps a little about
// each job. What is promised is judged; what is not promised is measured. A rule for which the history has no evidence
// says which lines are missing. Each rule is one file, p01_lost.go to p12_not_before.go.
//
// No rule is excused by a fault except through its own words: the times in which the queue could not work (a server
// was down, no worker had a free slot) don't count, and the time in which the harness kept a process still is no
// overlap. A rule about time whose violation lies near a moment at which the observing machine stood still is
// inconclusive. A rule about facts never is.
package promise

import (
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// Delivery is how often a job runs.
type Delivery string

// The kinds of delivery. Anything else is not promised.
const (
	AtLeastOnce Delivery = "at-least-once"
	AtMostOnce  Delivery = "at-most-once"
)

// Promises are what a system promises about its jobs. The zero value promises nothing.
type Promises struct {
	Delivery Delivery
	// Overlap is how long two attempts of a job may run at the same time; nil if that is not promised.
	Overlap *time.Duration
	Lease   Lease
	// Recovery is how soon the job of a lost worker runs again; zero if that is not promised.
	Recovery Recovery
	// Attempts is how often a job may start; 0 if that is not promised.
	Attempts int
	// Stop is what a process does when it is asked to stop; nil if that is not promised.
	Stop *Stop
	// ResultStable is whether a result stays once the job is done; Unique whether submissions with one key are one job.
	ResultStable bool
	Unique       bool
	// Punctual is how late a job with an earliest start may start; 0 if that is not promised.
	Punctual time.Duration
}

// Lease is how long an attempt is safe from being started a second time: from its start, or, if it is renewed, from the
// moment at which its process fell silent.
type Lease struct {
	After   time.Duration
	Renewed bool
}

// Recovery bounds the time until a lost job starts again: after the death of its attempt, and from the moment at which
// its process fell silent.
type Recovery struct {
	Killed, Silent time.Duration
}

// longestBound is the longer of both.
func (r Recovery) longestBound() time.Duration { return max(r.Killed, r.Silent) }

// Stop is what happens after a request to stop: the process ends within a time, and its jobs are finished or handed
// back.
type Stop struct {
	Within time.Duration
	Finish bool
}

var (
	stopJobs = []string{"finish", "hand back"}
	anyTime  = yamlfile.DurationSchema
)

func eitherSchema(a, b yamlfile.Schema) yamlfile.Schema { return yamlfile.Schema{"oneOf": []any{a, b}} }

func leaseShape() yamlfile.Shape {
	return yamlfile.NewShape("lease",
		yamlfile.Required("after", "how long", anyTime()),
		yamlfile.Optional("renewed", "whether a running job's worker renews it, so that it ends only after silence", yamlfile.Schema{"type": "boolean"}))
}

func recoveryShape() yamlfile.Shape {
	return yamlfile.NewShape("recovery",
		yamlfile.Required("killed", "after its attempt died", anyTime()),
		yamlfile.Required("silent", "after its process fell silent", anyTime()))
}

func overlapShape() yamlfile.Shape {
	return yamlfile.NewShape("overlap", yamlfile.Required("most", "how long two attempts may run at the same time", anyTime()))
}

func stopShape() yamlfile.Shape {
	return yamlfile.NewShape("stop",
		yamlfile.Required("within", "how long until the process ends", anyTime()),
		yamlfile.Required("jobs", "what happens to its jobs", yamlfile.Enum(stopJobs)))
}

// Shape describes the promises in a file.
func Shape() yamlfile.Shape {
	return yamlfile.NewShape("promises",
		yamlfile.Optional("delivery", "how often a job runs; left out: counted", yamlfile.Enum([]string{string(AtLeastOnce), string(AtMostOnce)})),
		yamlfile.Optional("overlap", "whether two attempts of a job may run at the same time: never, or {most: 5s}; left out: measured",
			eitherSchema(yamlfile.Enum([]string{"never"}), overlapShape().Object())),
		yamlfile.Optional("lease", "the age at which a run may be given to another worker: 8s, or {after: 12s, renewed: true}; left out: not judged",
			eitherSchema(anyTime(), leaseShape().Object())),
		yamlfile.Optional("recovery", "a lost worker's job runs again by then: 1m, or {killed: 10s, silent: 25s}; left out: measured",
			eitherSchema(anyTime(), recoveryShape().Object())),
		yamlfile.Optional("attempts", "how often one job starts, at most; left out: measured", yamlfile.IntegerSchema(1, 1_000_000)),
		yamlfile.Optional("stop", "what a process does after SIGTERM: {within: 4s, jobs: hand back}; left out: measured", stopShape().Object()),
		yamlfile.Optional("result", "stable: what done says once, it says permanently; left out: counted", yamlfile.Enum([]string{"stable"})),
		yamlfile.Optional("unique", "submissions with one key are one job; left out: counted", yamlfile.Schema{"type": "boolean"}),
		yamlfile.Optional("punctual", "how late a job with an earliest start may start; left out: measured", anyTime()),
	)
}

// Parse reads promises from the bytes of a file; they may be JSON, which is YAML. Mistakes give yamlfile.Errors.
func Parse(file string, data []byte) (Promises, error) {
	r := yamlfile.NewReader(file, "promises", data)
	var p Promises
	if root := r.Root(data); root != nil {
		p = Read(r, root)
	}
	if problems := r.Problems(); len(problems) > 0 {
		return p, problems
	}
	return p, nil
}

// Read reads promises from a node of a file. The reader keeps the mistakes.
func Read(r *yamlfile.Reader, n *yaml.Node) (p Promises) {
	m, ok := r.Mapping(n, Shape())
	if !ok {
		return p
	}
	if n := m.At("delivery"); n != nil {
		text, _ := r.Choice(n, "delivery", []string{string(AtLeastOnce), string(AtMostOnce)})
		p.Delivery = Delivery(text)
	}
	if n := m.At("overlap"); n != nil {
		p.Overlap = readOverlap(r, n)
	}
	if n := m.At("lease"); n != nil {
		p.Lease = readLease(r, n)
	}
	if n := m.At("recovery"); n != nil {
		p.Recovery = readRecovery(r, n)
	}
	if n := m.At("attempts"); n != nil {
		most, _ := r.Integer(n, "attempts", 1, 1_000_000)
		p.Attempts = int(most)
	}
	if n := m.At("stop"); n != nil {
		p.Stop = readStop(r, n)
	}
	if n := m.At("result"); n != nil {
		_, p.ResultStable = r.Choice(n, "result", []string{"stable"})
	}
	if n := m.At("unique"); n != nil {
		p.Unique, _ = r.Bool(n, "unique")
	}
	if n := m.At("punctual"); n != nil {
		p.Punctual, _ = r.Duration(n, "punctual", time.Millisecond)
	}
	return p
}

func readOverlap(r *yamlfile.Reader, n *yaml.Node) *time.Duration {
	var most time.Duration
	if n.Kind == yaml.MappingNode {
		m, ok := r.Mapping(n, overlapShape())
		if !ok || !m.Has("most") {
			return nil
		}
		most, _ = r.Duration(m.At("most"), "most", 0)
	} else if _, ok := r.Choice(n, "overlap", []string{"never"}); !ok {
		return nil
	}
	return &most
}

func readLease(r *yamlfile.Reader, n *yaml.Node) (l Lease) {
	if n.Kind != yaml.MappingNode {
		l.After, _ = r.Duration(n, "lease", time.Millisecond)
		return l
	}
	if m, ok := r.Mapping(n, leaseShape()); ok {
		if m.Has("after") {
			l.After, _ = r.Duration(m.At("after"), "after", time.Millisecond)
		}
		if m.Has("renewed") {
			l.Renewed, _ = r.Bool(m.At("renewed"), "renewed")
		}
	}
	return l
}

func readRecovery(r *yamlfile.Reader, n *yaml.Node) (v Recovery) {
	if n.Kind != yaml.MappingNode {
		v.Killed, _ = r.Duration(n, "recovery", time.Millisecond)
		v.Silent = v.Killed
		return v
	}
	if m, ok := r.Mapping(n, recoveryShape()); ok && m.Has("killed") && m.Has("silent") {
		v.Killed, _ = r.Duration(m.At("killed"), "killed", time.Millisecond)
		v.Silent, _ = r.Duration(m.At("silent"), "silent", time.Millisecond)
	}
	return v
}

func readStop(r *yamlfile.Reader, n *yaml.Node) *Stop {
	m, ok := r.Mapping(n, stopShape())
	if !ok || !m.Has("within") || !m.Has("jobs") {
		return nil
	}
	var s Stop
	s.Within, _ = r.Duration(m.At("within"), "within", time.Millisecond)
	jobs, _ := r.Choice(m.At("jobs"), "jobs", stopJobs)
	s.Finish = jobs == "finish"
	return &s
}
