package soak

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/verdict"
)

// Progress is how far a soak is.
type Progress struct {
	// At counts from the moment at which the load is up; For is how long the soak is to last.
	At, For time.Duration
	// Phase says what goes on: finding the rate, load, drain.
	Phase string
	// Rate is what is submitted at, in executions a second; Held says that nothing is submitted just now, for the
	// backlog.
	Rate float64
	Held bool
	// Accepted, Ended and Open count executions; Started counts processes of actions.
	Accepted, Ended, Open, Started int
	// Strikes are those that have begun, of All.
	Strikes, All int
	// Broken is the first rule that was broken so far, empty if none was.
	Broken string
	// Behind is how far the judge is behind.
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

// Struck is what became of a strike.
type Struck struct {
	Strike
	// Began says that it began; Touched that it made a difference to something.
	Began   bool `json:"began"`
	Touched bool `json:"touched"`
	// From and To are when it began and ended.
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	// Ended counts the executions that ended from its begin to the begin of the next one.
	Ended int `json:"ended"`
}

// Rules that a soak answers for.
const (
	NothingLost     = "nothing lost"
	NothingTwice    = "nothing twice"
	NothingUnearned = "nothing unearned"
	AllFlat         = "all curves flat"
)

// Answer is what a soak says to one of the questions that it is run for.
type Answer struct {
	Question string          `json:"question"`
	Verdict  verdict.Verdict `json:"verdict"`
	// Text says what it rests on, or what broke it.
	Text string `json:"text"`
}

// Judged is what became of one invariant.
type Judged struct {
	Number    int    `json:"number"`
	Name      string `json:"name"`
	Statement string `json:"statement"`
	// Occasions is how often it judged something.
	Occasions uint64 `json:"occasions"`
	Broken    bool   `json:"broken"`
	// Excused says that it was broken while the machine stood still, which is no verdict.
	Excused bool `json:"excused,omitempty"`
	// Not says why it was not judged; Part which part was judged, empty for all of it.
	Not  string `json:"not_judged,omitempty"`
	Part string `json:"in_part,omitempty"`
}

// Curve is a series with what became of it.
type Curve struct {
	*Series   `json:"-"`
	Judgement Judgement `json:"judgement"`
}

// Result is what a soak comes to.
type Result struct {
	Verdict verdict.Verdict `json:"verdict"`
	Answers []Answer        `json:"answers"`
	// Why says why it is no pass.
	Why  []string      `json:"why,omitempty"`
	Seed uint64        `json:"seed"`
	For  time.Duration `json:"for"`
	// Ran is how long the load lasted; Interrupted says that it was ended before.
	Ran         time.Duration `json:"ran"`
	Interrupted bool          `json:"interrupted"`
	Mutant      string        `json:"mutant,omitempty"`
	// Rate is what was submitted at; Held is the rate that the ramp found, 0 where the rate was given. HeldBack is how
	// long nothing was submitted for the backlog.
	Rate     float64       `json:"rate"`
	Held     float64       `json:"held"`
	HeldBack time.Duration `json:"held_back"`

	Sent     int            `json:"sent"`
	Accepted int            `json:"accepted"`
	Rows     int            `json:"rows"`
	Retries  int            `json:"retries"`
	Ends     map[string]int `json:"ends"`
	// Processes are runs of actions that began, by the journals; Events what was judged.
	Processes int    `json:"processes"`
	Events    uint64 `json:"events"`
	// Late counts events that came after the window that they belong to. Behind is the most that the judge was behind.
	Late   int           `json:"late"`
	Behind time.Duration `json:"behind"`
	Drain  time.Duration `json:"drain"`

	Rounds     int                 `json:"rounds"`
	Short      string              `json:"short,omitempty"`
	Strikes    []Struck            `json:"strikes"`
	Violations []verdict.Violation `json:"violations,omitempty"`
	// Excused are violations close to a moment in which the machine stood still, which their messages name.
	Excused   []verdict.Violation `json:"excused,omitempty"`
	Judged    []Judged            `json:"judged"`
	Curves    []Curve             `json:"-"`
	Summaries []Summary           `json:"curves"`
	// Stalls is how often, and the longest time for which, the machine stood still.
	Stalls       int           `json:"stalls"`
	LongestStall time.Duration `json:"longest_stall"`
	// Noise says why the harness itself could not go on; empty if it could.
	Noise string `json:"noise,omitempty"`
	// Audit is what judging the database's audit table came to.
	Audit string   `json:"audit"`
	Notes []string `json:"notes,omitempty"`
	// Unread says what of the audit could not be read; empty if everything could, as it must be: the daemons wrote it.
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

// afterOutage is how long after the return of a server what had waited for it is made up for.
const afterOutage = 15 * time.Second

// Outages are the times in which a server was away, and what had waited was made up for.
func (r *Result) Outages() (all []Span) {
	for i := range r.Strikes {
		if s := &r.Strikes[i]; s.Began && (s.Part == "database" || s.Part == "broker") {
			all = append(all, Span{s.From, s.To + afterOutage})
		}
	}
	return all
}

// Parts counts the strikes that made a difference, by part and kind. The parts are processes, servers, then links.
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
	slices.SortFunc(parts, func(a, b string) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a, b)) })
	return parts, counts
}

// Missed are the kinds of strikes that made no difference, however often they came, as "cut shell-1 – broker".
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

// rank puts processes before servers, and both before links.
func rank(part string) int {
	switch {
	case strings.Contains(part, " – "):
		return 2
	case part == "database" || part == "broker":
		return 1
	}
	return 0
}
