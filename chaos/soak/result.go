package soak

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/verdict"
)

// Progress is the present state of a soak.
type Progress struct {
	// At is the time since the load began. For is how long the soak is to last.
	At, For time.Duration
	// Phase is the present phase: finding the rate, load, drain.
	Phase string
	// Rate is the rate of submission, in executions a second. Held says that submission is paused
	// because of the backlog.
	Rate float64
	Held bool
	// Accepted, Ended and Open count executions. Started counts processes of actions.
	Accepted, Ended, Open, Started int
	// Strikes counts the strikes that have begun; All counts all of them.
	Strikes, All int
	// Broken is the first rule that was broken so far; empty if none was.
	Broken string
	// Behind is the delay of the judge.
	Behind time.Duration
}

// String is the line of progress.
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

// Struck is a strike and its effect.
type Struck struct {
	Strike
	// Began says that it began. Touched says that it had an effect.
	Began   bool `json:"began"`
	Touched bool `json:"touched"`
	// From and To are when it began and ended.
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	// Ended counts the executions that ended from its beginning to the beginning of the next one.
	Ended int `json:"ended"`
}

// The rules of a soak.
const (
	NothingLost     = "nothing lost"
	NothingTwice    = "nothing twice"
	NothingUnearned = "nothing unearned"
	AllFlat         = "all curves flat"
)

// Answer is the result of a soak for one of its questions.
type Answer struct {
	Question string          `json:"question"`
	Verdict  verdict.Verdict `json:"verdict"`
	// Text names the evidence, or what broke the rule.
	Text string `json:"text"`
}

// Judged is the result for one invariant.
type Judged struct {
	Number    int    `json:"number"`
	Name      string `json:"name"`
	Statement string `json:"statement"`
	// Occasions is how often the invariant judged something.
	Occasions uint64 `json:"occasions"`
	Broken    bool   `json:"broken"`
	// Excused says that it was broken while the machine stalled, which is no verdict.
	Excused bool `json:"excused,omitempty"`
	// Not says why it was not judged. Part says which part was judged, empty for all of it.
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
	// Why says why it did not pass.
	Why  []string      `json:"why,omitempty"`
	Seed uint64        `json:"seed"`
	For  time.Duration `json:"for"`
	// Ran is how long the load lasted. Interrupted says that it was ended early.
	Ran         time.Duration `json:"ran"`
	Interrupted bool          `json:"interrupted"`
	Mutant      string        `json:"mutant,omitempty"`
	// Rate is the rate of submission. Held is the rate that the ramp found, 0 if the rate was
	// given. HeldBack is how long submission was paused because of the backlog.
	Rate     float64       `json:"rate"`
	Held     float64       `json:"held"`
	HeldBack time.Duration `json:"held_back"`

	Sent     int            `json:"sent"`
	Accepted int            `json:"accepted"`
	Rows     int            `json:"rows"`
	Retries  int            `json:"retries"`
	Ends     map[string]int `json:"ends"`
	// Processes counts the runs of actions that began, by the journals. Events counts the judged
	// events.
	Processes int    `json:"processes"`
	Events    uint64 `json:"events"`
	// Late counts events that came after their window. Behind is the greatest delay of the judge.
	Late   int           `json:"late"`
	Behind time.Duration `json:"behind"`
	Drain  time.Duration `json:"drain"`

	Rounds     int                 `json:"rounds"`
	Short      string              `json:"short,omitempty"`
	Strikes    []Struck            `json:"strikes"`
	Violations []verdict.Violation `json:"violations,omitempty"`
	// Excused are violations close to a moment in which the machine stalled; their messages name
	// it.
	Excused   []verdict.Violation `json:"excused,omitempty"`
	Judged    []Judged            `json:"judged"`
	Curves    []Curve             `json:"-"`
	Summaries []Summary           `json:"curves"`
	// Stalls is how often the machine stalled, LongestStall the longest such time.
	Stalls       int           `json:"stalls"`
	LongestStall time.Duration `json:"longest_stall"`
	// Noise says why the harness itself could not go on; empty if it could.
	Noise string `json:"noise,omitempty"`
	// Audit is the result of judging the database's audit table.
	Audit string   `json:"audit"`
	Notes []string `json:"notes,omitempty"`
	// Unread says which part of the audit could not be read. It must be empty, because the daemons
	// wrote the audit.
	Unread string `json:"unread,omitempty"`
}

// Summary is a curve in the result's file.
type Summary struct {
	Name string  `json:"name"`
	Of   string  `json:"of,omitempty"`
	Unit string  `json:"unit,omitempty"`
	Last float64 `json:"last"`
	Judgement
}

// afterOutage is how long after the return of a server its backlog is worked off.
const afterOutage = 15 * time.Second

// Outages are the times in which a server was away, each until its backlog was worked off.
func (r *Result) Outages() (all []Span) {
	for i := range r.Strikes {
		if s := &r.Strikes[i]; s.Began && (s.Part == "database" || s.Part == "broker") {
			all = append(all, Span{s.From, s.To + afterOutage})
		}
	}
	return all
}

// Parts counts the strikes that had an effect, by part and kind. The parts are processes, servers,
// then links.
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

// Missed are the kinds of strikes that never had an effect, as "cut shell-1 – broker".
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

// partRank puts processes before servers, and both before links.
func partRank(part string) int {
	switch {
	case strings.Contains(part, " – "):
		return 2
	case part == "database" || part == "broker":
		return 1
	}
	return 0
}
