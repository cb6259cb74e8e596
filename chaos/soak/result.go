package soak

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/verdict"
)

// Progress is the current state of a soak.
type Progress struct {
	// At is the time since the load began. For is the planned duration.
	At, For time.Duration
	// Phase is the current phase: finding the rate, load, drain.
	Phase string
	// Rate is the rate of submission, in executions per second. Held reports whether submission is paused
	// because of the backlog.
	Rate float64
	Held bool
	// Accepted, Ended and Open count executions. Started counts processes of actions.
	Accepted, Ended, Open, Started int
	// Strikes counts the strikes that have begun, and All counts all planned strikes.
	Strikes, All int
	// Broken is the first broken rule so far; empty if none is.
	Broken string
	// Behind is how far the judge lags behind.
	Behind time.Duration
}

// String returns the progress as one line.
func (p Progress) String() string {
	held := ""
	if p.Held {
		held = ", held back"
	}
	broken := ""
	if p.Broken != "" {
		broken = "; BROKEN: " + p.Broken
	}
	return fmt.Sprintf("%8v of %v  %s  %.1f/s%s: %d accepted, %d ended, %d open, %d processes, %d of %d strikes, judge %.1f s behind%s",
		p.At.Round(time.Second), p.For, p.Phase, p.Rate, held, p.Accepted, p.Ended, p.Open, p.Started, p.Strikes, p.All, p.Behind.Seconds(), broken)
}

// Struck is a strike with its effect.
type Struck struct {
	Strike
	// Began reports whether the strike began, Touched whether it had an effect.
	Began   bool `json:"began"`
	Touched bool `json:"touched"`
	// From and To are the times of its beginning and end.
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	// Ended counts the executions that ended between the beginnings of this strike and the next.
	Ended int `json:"ended"`
}

// The rules of a soak.
const (
	NothingLost     = "nothing lost"
	NothingTwice    = "nothing twice"
	NothingUnearned = "nothing unearned"
	AllFlat         = "all curves flat"
)

// Answer is the result of a soak for one of its rules.
type Answer struct {
	Question string          `json:"question"`
	Verdict  verdict.Verdict `json:"verdict"`
	// Text states the evidence, or why the rule is broken.
	Text string `json:"text"`
}

// Judged is the result for one invariant.
type Judged struct {
	Number    int    `json:"number"`
	Name      string `json:"name"`
	Statement string `json:"statement"`
	// Occasions counts the occasions on which the invariant was judged.
	Occasions uint64 `json:"occasions"`
	Broken    bool   `json:"broken"`
	// Excused reports whether the invariant was broken only while the machine stalled, which does not count.
	Excused bool `json:"excused,omitempty"`
	// Not explains why the invariant was not judged. Part is the part that was judged, empty for all of it.
	Not  string `json:"not_judged,omitempty"`
	Part string `json:"in_part,omitempty"`
}

// Curve is a series with its judgement.
type Curve struct {
	*Series   `json:"-"`
	Judgement Judgement `json:"judgement"`
}

// Result is the result of a soak.
type Result struct {
	Verdict verdict.Verdict `json:"verdict"`
	Answers []Answer        `json:"answers"`
	// Why lists the reasons why the soak did not pass.
	Why  []string      `json:"why,omitempty"`
	Seed uint64        `json:"seed"`
	For  time.Duration `json:"for"`
	// Ran is the duration of the load. Interrupted reports whether it was ended early.
	Ran         time.Duration `json:"ran"`
	Interrupted bool          `json:"interrupted"`
	Mutant      string        `json:"mutant,omitempty"`
	// Rate is the rate of submission. Held is the sustained rate that the ramp found, 0 if the rate was
	// given. HeldBack is how long submission was paused because of the backlog.
	Rate     float64       `json:"rate"`
	Held     float64       `json:"held"`
	HeldBack time.Duration `json:"held_back"`

	Sent     int            `json:"sent"`
	Accepted int            `json:"accepted"`
	Rows     int            `json:"rows"`
	Retries  int            `json:"retries"`
	Ends     map[string]int `json:"ends"`
	// Processes counts the runs of actions that began, from the journals. Events counts the judged events.
	Processes int    `json:"processes"`
	Events    uint64 `json:"events"`
	// Late counts events that arrived after their window. Behind is the greatest delay of the judge.
	Late   int           `json:"late"`
	Behind time.Duration `json:"behind"`
	Drain  time.Duration `json:"drain"`

	Rounds     int                 `json:"rounds"`
	Short      string              `json:"short,omitempty"`
	Strikes    []Struck            `json:"strikes"`
	Violations []verdict.Violation `json:"violations,omitempty"`
	// Excused holds violations close to a stall of the machine. Their messages name the stall.
	Excused   []verdict.Violation `json:"excused,omitempty"`
	Judged    []Judged            `json:"judged"`
	Curves    []Curve             `json:"-"`
	Summaries []Summary           `json:"curves"`
	// Stalls counts the machine's stalls, and LongestStall is the longest of them.
	Stalls       int           `json:"stalls"`
	LongestStall time.Duration `json:"longest_stall"`
	// Noise explains why the harness itself could not continue; empty if it could.
	Noise string `json:"noise,omitempty"`
	// Audit is the result of judging the database's audit table.
	Audit string   `json:"audit"`
	Notes []string `json:"notes,omitempty"`
	// Unread describes which part of the audit was unreadable. It must be empty, because the daemons wrote
	// the audit.
	Unread string `json:"unread,omitempty"`
}

// Summary is a curve as it appears in the result's file.
type Summary struct {
	Name string  `json:"name"`
	Of   string  `json:"of,omitempty"`
	Unit string  `json:"unit,omitempty"`
	Last float64 `json:"last"`
	Judgement
}

// afterOutage is the time for processing the backlog after the restart of a server.
const afterOutage = 15 * time.Second

// Outages returns the periods in which a server was down or the system processed the backlog of an outage.
func (r *Result) Outages() (all []Span) {
	for i := range r.Strikes {
		if s := &r.Strikes[i]; s.Began && (s.Part == "database" || s.Part == "broker") {
			all = append(all, Span{s.From, s.To + afterOutage})
		}
	}
	return all
}

// Parts counts the strikes that had an effect, by part and kind. The parts are sorted: processes, servers,
// links.
func (r *Result) Parts() (parts []string, counts map[string]map[string]int) {
	counts = make(map[string]map[string]int)
	for i := range r.Strikes {
		s := &r.Strikes[i]
		if counts[s.Part] == nil {
			counts[s.Part] = make(map[string]int)
			parts = append(parts, s.Part)
		}
		if s.Touched {
			counts[s.Part][s.What]++
		}
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Or(partRank(a)-partRank(b), cmp.Compare(a, b)) })
	return parts, counts
}

// Missed returns the kinds of strikes that never had an effect, such as "cut shell-1 – broker".
func (r *Result) Missed() (all []string) {
	touched := make(map[string]bool)
	for i := range r.Strikes {
		s := &r.Strikes[i]
		name := s.What + " " + s.Part
		if _, seen := touched[name]; !seen {
			all = append(all, name)
		}
		touched[name] = touched[name] || s.Touched
	}
	return slices.DeleteFunc(all, func(name string) bool { return touched[name] })
}

// partRank sorts processes before servers, and servers before links.
func partRank(part string) int {
	switch {
	case strings.Contains(part, " – "):
		return 2
	case part == "database" || part == "broker":
		return 1
	}
	return 0
}
