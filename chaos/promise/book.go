package promise

import (
	"fmt"
	"slices"
	"time"

	"handoff/chaos/jobhistory"
)

// Options is what a book must know apart from the promises.
type Options struct {
	// Slack is how late anything may seem because of the observer and the machine.
	Slack time.Duration
	// Starts is how long a process needs from its start until it runs jobs.
	Starts time.Duration
	// Origin dates the times in messages; zero for times since the first line.
	Origin time.Time
}

// DefaultSlack is the slack of a history that names none.
const DefaultSlack = time.Second

// patience is the time after which a job without a promise of recovery counts as stuck.
const patience = time.Minute

// Book judges one history. Observe each line in the order of the times, then call End.
//
// It keeps an entry for each job, because some rules are about what a system says long after a job was done. So memory
// grows with the number of jobs, by a few hundred bytes each, and not with the number of lines.
type Book struct {
	Promises
	Options
	rules     []*state
	jobs      map[string]*job
	order     []*job
	processes map[string]*process
	names     []*process
	seen      [64]bool
	now       time.Duration
	// served is how much time has passed in which the queue could work; see serving.
	served   time.Duration
	down     map[string]bool
	workers  int
	slots    int
	stalls   []span
	over     bool
	accepted int
	unsure   int
	refused  int
	longest  time.Duration
	// again are the times from the loss of an attempt to the next start of its job.
	again    []time.Duration
	stops    []time.Duration
	overlaps []time.Duration
	repeated int
	most     int
	rewrites int
}

// span is a stretch of time.
type span struct{ from, to time.Duration }

// job is what a book knows of a job.
type job struct {
	name string
	key  string
	// submitted is when it was accepted, at the latest; accepted is whether it is known to be.
	submitted time.Duration
	accepted  bool
	notBefore time.Duration
	starts    int
	oks       int
	failures  int
	deaths    int
	// open are its attempts that run.
	open []*attempt
	// active is the served time of its last sign of life; failedLast is whether that was an attempt that failed.
	active     time.Duration
	activeAt   time.Duration
	failedLast bool
	final      jobhistory.Outcome
	finalAt    time.Duration
	gone       bool
	result     string
	// results are those of attempts that ended well.
	results []string
	// lost are the losses of its attempts that no start has followed.
	lost []loss
}

// loss is the loss of an attempt: it died, or its process fell silent.
type loss struct {
	of     string
	at     time.Duration
	served time.Duration
	silent bool
	by     *process
}

// attempt is one attempt of a job.
type attempt struct {
	name  string
	job   *job
	by    *process
	from  time.Duration
	lease time.Duration
	to    time.Duration
	how   jobhistory.Outcome
	// released is whether its owner gave it up.
	released bool
}

// process is an actor.
type process struct {
	name    string
	up      bool
	worker  bool
	ready   time.Duration
	running int
	paused  bool
	cuts    int
	// quiet is since when it is paused or cut; stopping since when it is asked to stop.
	quiet    time.Duration
	stopping time.Duration
	asked    bool
	pauses   []span
	attempts []*attempt
}

func (p *process) isSilent() bool { return p.paused || p.cuts > 0 }

// New returns a book of all rules.
func New(p Promises, o Options) *Book {
	if o.Slack == 0 {
		o.Slack = DefaultSlack
	}
	b := &Book{
		Promises: p, Options: o, jobs: make(map[string]*job), processes: make(map[string]*process),
		down: make(map[string]bool), slots: 1,
	}
	for _, r := range Rules() {
		s := &state{rule: r, promised: r.Promised == nil || r.Promised(&b.Promises)}
		b.rules = append(b.rules, s)
		r.make(b, &s.checks)
	}
	return b
}

// ruleBeingMade returns the state of a rule that is being made.
func (b *Book) ruleBeingMade() *state { return b.rules[len(b.rules)-1] }

// formatMoment formats a time of the history.
func (b *Book) formatMoment(at time.Duration) string {
	if b.Origin.IsZero() {
		return fmt.Sprintf("%.3fs", at.Seconds())
	}
	return b.Origin.Add(at).UTC().Format("15:04:05.000")
}

// formatLength formats a length of time for a message.
func formatLength(d time.Duration) string {
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// Observe judges a line.
func (b *Book) Observe(l *jobhistory.Line) {
	b.advanceClock(l.At)
	b.seen[l.Kind] = true
	switch l.Kind {
	case jobhistory.Submitted, jobhistory.Known, jobhistory.Unsure, jobhistory.Refused:
		b.noteSubmission(l)
	case jobhistory.Started:
		b.beginAttempt(l)
	case jobhistory.Ended:
		b.endAttempt(l)
	case jobhistory.Renewed, jobhistory.Released:
		for _, a := range b.jobNamed(l.Job).open {
			if l.Attempt == "" || a.name == l.Attempt {
				a.lease = l.At
				a.released = a.released || l.Kind == jobhistory.Released
			}
		}
	case jobhistory.Settled, jobhistory.Reopened, jobhistory.Gone:
		b.noteSettlement(l)
	case jobhistory.ServerDown:
		b.down[l.Actor] = true
	case jobhistory.ServerUp:
		delete(b.down, l.Actor)
	case jobhistory.FaultBegan, jobhistory.FaultEnded: // for readers; what they do to processes and servers has lines of its own
	case jobhistory.Stalled:
		b.stalls = append(b.stalls, span{l.At, l.Until})
	case jobhistory.End:
		b.over = true
	default:
		b.processEvent(l)
	}
}

// advanceClock moves the clocks on. The time in which the queue could not work is not served.
func (b *Book) advanceClock(to time.Duration) {
	for b.now < to {
		next := to
		for _, p := range b.names {
			if p.ready > b.now {
				next = min(next, p.ready)
			}
		}
		if b.isServing() {
			b.served += next - b.now
		}
		b.now = next
	}
}

// isServing reports whether the queue could start a job now: no server is down, and some worker that is up, ready and in
// touch has a free slot. How many slots a worker has is not known; it is taken to be the most that any has used. A
// history without lines about processes is taken to have a free worker at any time.
func (b *Book) isServing() bool {
	if len(b.down) > 0 {
		return false
	}
	if b.workers == 0 {
		return true
	}
	return slices.ContainsFunc(b.names, func(p *process) bool {
		return p.worker && p.up && !p.asked && !p.isSilent() && p.running < b.slots && b.now >= p.ready
	})
}

func (b *Book) jobNamed(name string) *job {
	j := b.jobs[name]
	if j == nil {
		j = &job{name: name, submitted: b.now, active: b.served, activeAt: b.now}
		b.jobs[name] = j
		b.order = append(b.order, j)
	}
	return j
}

func (b *Book) processNamed(name string) *process {
	p := b.processes[name]
	if p == nil {
		p = &process{name: name, up: true}
		b.processes[name] = p
		b.names = append(b.names, p)
	}
	return p
}

// unservedTime returns how much of the time since a job's last sign of life the queue could not work.
func (b *Book) unservedTime(j *job) time.Duration { return b.now - j.activeAt - (b.served - j.active) }

// noteLife records a sign of life of a job.
func (b *Book) noteLife(j *job) { j.active, j.activeAt, j.failedLast = b.served, b.now, false }

func (b *Book) noteSubmission(l *jobhistory.Line) {
	switch l.Kind {
	case jobhistory.Refused:
		b.refused++
		return
	case jobhistory.Unsure:
		b.unsure++
	case jobhistory.Submitted:
		b.accepted++
	}
	j := b.jobNamed(l.Job)
	j.accepted = j.accepted || l.Kind != jobhistory.Unsure
	j.submitted, j.key = l.At, l.Key
	j.notBefore = max(j.notBefore, l.NotBefore)
	if j.starts == 0 {
		b.noteLife(j)
	}
	for _, s := range b.rules {
		if s.checks.submitted != nil {
			s.checks.submitted(j, l)
		}
	}
}

func (b *Book) beginAttempt(l *jobhistory.Line) {
	j, p := b.jobNamed(l.Job), b.processNamed(l.Actor)
	if !p.worker {
		p.worker = true
		if b.seen[jobhistory.ProcessStarted] {
			b.workers++
		}
	}
	p.ready = min(p.ready, b.now)
	a := &attempt{name: l.Attempt, job: j, by: p, from: l.At, lease: l.At}
	if a.name == "" {
		a.name = fmt.Sprint(j.starts + 1)
	}
	j.starts++
	b.most = max(b.most, j.starts)
	for _, s := range b.rules {
		if s.checks.started != nil {
			s.checks.started(a)
		}
	}
	if len(j.lost) > 0 {
		b.again = append(b.again, b.now-j.lost[0].at)
		j.lost = j.lost[:0]
	}
	j.open = append(j.open, a)
	p.attempts = append(p.attempts, a)
	p.running++
	b.slots = max(b.slots, p.running)
	b.noteLife(j)
}

func (b *Book) endAttempt(l *jobhistory.Line) {
	j := b.jobNamed(l.Job)
	i := slices.IndexFunc(j.open, func(a *attempt) bool {
		return a.name == l.Attempt || l.Attempt == "" && (l.Actor == "" || l.Actor == a.by.name)
	})
	if i < 0 {
		return // its start is not in the history, or it ended with its process
	}
	b.settleAttempt(j.open[i], l.Outcome, l.Result)
}

// settleAttempt ends an attempt.
func (b *Book) settleAttempt(a *attempt, how jobhistory.Outcome, result string) {
	j := a.job
	a.to, a.how = b.now, how
	remove := func(list []*attempt) []*attempt {
		return slices.DeleteFunc(list, func(x *attempt) bool { return x == a })
	}
	j.open, a.by.attempts = remove(j.open), remove(a.by.attempts)
	a.by.running--
	b.longest = max(b.longest, a.to-a.from)
	b.noteLife(j)
	switch how {
	case jobhistory.OK:
		if j.oks++; j.oks == 2 {
			b.repeated++
		}
		if result != "" {
			j.results = append(j.results, result)
		}
	case jobhistory.Failed:
		j.failures++
		j.failedLast = true
	case jobhistory.Died:
		j.deaths++
		b.noteLoss(a, false)
	}
	for _, s := range b.rules {
		if s.checks.ended != nil {
			s.checks.ended(a)
		}
	}
}

// noteLoss notes that an attempt was lost, unless another runs or the job is settled.
func (b *Book) noteLoss(a *attempt, silent bool) {
	others := slices.ContainsFunc(a.job.open, func(x *attempt) bool { return x != a && !x.by.isSilent() })
	if a.job.final == "" && !others {
		a.job.lost = append(a.job.lost, loss{a.name, b.now, b.served, silent, a.by})
	}
}

func (b *Book) noteSettlement(l *jobhistory.Line) {
	j := b.jobNamed(l.Job)
	for _, s := range b.rules {
		if s.checks.settled != nil {
			s.checks.settled(j, l)
		}
	}
	switch l.Kind {
	case jobhistory.Settled:
		if j.result != "" && l.Result != "" && j.result != l.Result {
			b.rewrites++
		}
		j.final, j.finalAt = l.Outcome, l.At
		if l.Result != "" {
			j.result = l.Result
		}
		j.lost = nil
		b.noteLife(j)
	case jobhistory.Reopened:
		j.final = ""
		b.noteLife(j)
	case jobhistory.Gone:
		j.gone = true
	}
}

func (b *Book) processEvent(l *jobhistory.Line) {
	p := b.processNamed(l.Actor)
	for _, s := range b.rules {
		if s.checks.process != nil {
			s.checks.process(p, l)
		}
	}
	wasSilent := p.isSilent()
	switch l.Kind {
	case jobhistory.ProcessStarted:
		p.up, p.asked, p.ready = true, false, b.now+b.Starts
	case jobhistory.ProcessStopping:
		p.asked, p.stopping = true, b.now
	case jobhistory.ProcessEnded:
		if p.asked {
			b.stops = append(b.stops, b.now-p.stopping)
		}
		b.resumeProcess(p)
		p.up, p.asked, p.cuts = false, false, 0
		for len(p.attempts) > 0 {
			b.settleAttempt(p.attempts[0], jobhistory.Died, "")
		}
	case jobhistory.ProcessPaused:
		p.paused = true
		p.pauses = append(p.pauses, span{b.now, -1})
	case jobhistory.ProcessResumed:
		b.resumeProcess(p)
	case jobhistory.ProcessCut:
		p.cuts++
	case jobhistory.ProcessHealed:
		p.cuts = max(0, p.cuts-1)
	}
	switch {
	case !wasSilent && p.isSilent():
		p.quiet = b.now
		for _, a := range p.attempts {
			b.noteLoss(a, true)
		}
	case wasSilent && !p.isSilent():
		// Who is back goes on with what nobody has taken over.
		for _, a := range p.attempts {
			a.job.lost = slices.DeleteFunc(a.job.lost, func(x loss) bool { return x.silent && x.by == p })
		}
	}
}

func (b *Book) resumeProcess(p *process) {
	if p.paused {
		p.paused = false
		p.pauses[len(p.pauses)-1].to = b.now
	}
}

// frozenTime is how much of a stretch the processes were paused, counted once where both were.
func (b *Book) frozenTime(from, to time.Duration, of ...*process) (sum time.Duration) {
	var pauses []span
	for i, p := range of {
		if i > 0 && p == of[0] {
			continue
		}
		for _, x := range p.pauses {
			if x.to < 0 {
				x.to = b.now
			}
			if x.from, x.to = max(x.from, from), min(x.to, to); x.to > x.from {
				pauses = append(pauses, x)
			}
		}
	}
	slices.SortFunc(pauses, func(a, c span) int { return int(a.from - c.from) })
	end := from
	for _, x := range pauses {
		if x.to > end {
			sum += x.to - max(x.from, end)
			end = x.to
		}
	}
	return sum
}

// stalledNear reports whether the observer stood still for more than half of the slack within a lease of a stretch.
func (b *Book) stalledNear(from, to time.Duration) bool {
	near := max(b.Lease.After, b.Recovery.longestBound(), b.Slack)
	return slices.ContainsFunc(b.stalls, func(s span) bool { return s.to-s.from > b.Slack/2 && s.to > from-near && s.from < to+near })
}

// End judges what only the end shows, and returns the report. The book is of no use afterwards.
func (b *Book) End() Report {
	for _, s := range b.rules {
		if s.checks.end != nil {
			s.checks.end()
		}
	}
	r := Report{Jobs: b.accepted}
	for _, j := range b.order {
		for _, s := range b.rules {
			if s.checks.rest != nil {
				s.checks.rest(j)
			}
		}
	}
	for _, s := range b.rules {
		r.Results = append(r.Results, b.judgeRule(s))
	}
	r.Figures = b.measuredFigures()
	return r
}
