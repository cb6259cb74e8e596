package live

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/audit"
	"handoff/chaos/invariant"
	"handoff/chaos/run"
	"handoff/chaos/soak"
	"handoff/chaos/verdict"
)

// This file turns a soak into a verdict.

// The numbers of the invariants by which each question about a soak is answered.
var (
	lostRules     = []int{5, 7, 16}           //nolint:gochecknoglobals // a constant list
	twiceRules    = []int{1, 3, 4, 8, 11, 13} //nolint:gochecknoglobals // a constant list
	unearnedRules = []int{17}                 //nolint:gochecknoglobals // a constant list
)

// newResult returns the result with the judges' findings but without a verdict.
func (sr *soakRun) newResult(settled bool, stalls []Stall, crashed string) *soak.Result {
	w, p := sr.w, sr.o.Plan
	r := &soak.Result{
		Seed: p.Seed, For: p.For, Mutant: sr.o.Mutant, Rate: sr.load.target, HeldBack: sr.load.heldFor,
		Sent: int(sr.load.sent.Load()), Accepted: sr.load.book.N, Rows: sr.ledger.Rows, Retries: sr.ledger.Retries,
		Ends: make(map[string]int), Processes: sr.ledger.Started, Events: sr.events, Late: sr.stream.Late, Behind: sr.mostBehind,
		Rounds: p.Rounds, Short: p.Short(), Stalls: len(stalls),
	}
	for s, n := range sr.ledger.Ends {
		r.Ends[s.String()] = n
	}
	for _, s := range stalls {
		r.LongestStall = max(r.LongestStall, s.For)
	}
	if !settled && (w.unable != nil || crashed != "") {
		// The soak ended early, so recent executions may still be open.
		sr.suite.SetPatience(sr.settleTime())
	}
	for _, f := range sr.suite.End(settled) {
		v := run.Violation(&f, p.Seed)
		why := noiseReason([]verdict.Violation{v}, stalls, w.config.Worker)
		v.At -= w.ready
		if why != "" {
			v.Message += " (" + why + ")"
			r.Excused = append(r.Excused, v)
			continue
		}
		r.Violations = append(r.Violations, v)
	}
	add := func(name, message string) {
		r.Violations = append(r.Violations, verdict.Violation{Name: name, Seed: p.Seed, At: w.scenarioClock().Now(), Message: message})
	}
	switch {
	case w.unable != nil:
		r.Noise = "the harness could not continue: " + firstLine(w.unable.Error())
	case crashed != "":
		add("daemons", firstLine(crashed))
	default:
		for _, wrong := range sr.ledger.Balance(r.Sent, sr.load.book.Has) {
			add("acceptance", wrong)
		}
	}
	if sr.stream.Unread != nil {
		add("journals", "a line of a journal could not be read: "+sr.stream.Unread.Error())
	}
	if !settled {
		r.Notes = append(r.Notes, fmt.Sprintf("the system did not settle in time: %d executions had not ended", sr.ledger.Open()))
	}
	if r.Late > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d events came after their window, and were judged at the beginning of the next one", r.Late))
	}
	sr.reportStrikes(r)
	sr.reportRules(r)
	for _, c := range sr.sampler.all {
		r.Curves = append(r.Curves, soak.Curve{Series: c})
	}
	return r
}

// firstLine returns the first line of a text. The other lines may be the end of a log.
func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// reportStrikes adds the result of each strike to r.
func (sr *soakRun) reportStrikes(r *soak.Result) {
	counts := sr.w.injector.Counts()
	n := 0
	for i := range sr.o.Plan.Strikes {
		s := soak.Struck{Strike: sr.o.Plan.Strikes[i]}
		for range s.Faults() {
			c := counts[n]
			n++
			s.Began, s.Touched = s.Began || c.Fired > 0, s.Touched || c.Touched > 0
			f := sr.struck[c.Fault]
			if f == nil {
				continue
			}
			if s.From == 0 {
				s.From, s.Ended = f.from, sr.ledger.Ended-f.ended
			}
			s.To = max(s.To, f.to, f.from)
		}
		r.Strikes = append(r.Strikes, s)
	}
	for i := range r.Strikes {
		next := 0
		if i+1 < len(r.Strikes) {
			next = r.Strikes[i+1].Ended
		}
		r.Strikes[i].Ended = max(0, r.Strikes[i].Ended-next)
	}
}

// reportRules adds the result of each invariant to r.
func (sr *soakRun) reportRules(r *soak.Result) {
	_, not := soakRules()
	occasions := sr.suite.Judged()
	kinds := soakEvidence()
	for _, i := range invariant.All() {
		j := soak.Judged{Number: i.Number, Name: i.Name, Statement: i.Statement, Occasions: occasions[i.Number-1], Not: not[i.Number]}
		if j.Not == "" && i.InPart(kinds) {
			j.Part = i.Part
		}
		of := func(v verdict.Violation) bool { return v.Invariant == i.Number }
		j.Broken, j.Excused = slices.ContainsFunc(r.Violations, of), slices.ContainsFunc(r.Excused, of)
		r.Judged = append(r.Judged, j)
	}
}

// auditDatabase judges the database's audit table, as chaos check does.
func (sr *soakRun) auditDatabase(ctx context.Context, r *soak.Result) {
	began := time.Now()
	a, err := audit.Judge(ctx, sr.w.db.URL, audit.Options{Config: sr.w.config, StatementTimeout: 10 * time.Minute})
	if err != nil {
		r.Audit = "not judged: " + err.Error()
		r.Notes = append(r.Notes, "the database's audit table was not judged: "+err.Error())
		return
	}
	r.Audit = fmt.Sprintf("chaos check: %d executions, %d events, %d rules hold, %d broken, %d not judged, %d still open, in %v",
		a.Executions, a.Events, a.Count(audit.Holds), a.Count(audit.Broken), a.Count(audit.NotJudged), a.Open, time.Since(began).Round(100*time.Millisecond))
	if a.Unread > 0 {
		r.Unread = fmt.Sprintf("of the database's audit table %d events could not be read, and %d executions not be judged: %s", a.Unread, a.Aside, a.Unknown[0])
	}
	for _, f := range a.Violations {
		v := run.Violation(&f, r.Seed)
		v.Step, v.At, v.Message = 0, f.At-sr.w.ready, "by the audit table: "+f.Message
		r.Violations = append(r.Violations, v)
	}
}

// setVerdict judges the curves, answers the questions and sets the verdict.
func (sr *soakRun) setVerdict(r *soak.Result) {
	// By `from` the load has reached its rate. The drain at the end doesn't count as load.
	from, to := min(10*time.Second, r.Ran/4), r.Ran
	executions := sr.sampler.by["executions so far/"+ofLoad]
	outages := r.Outages()
	var grows []string
	for i := range r.Curves {
		c := &r.Curves[i]
		if c.Name == openCurve {
			c.Slack = float64(soak.Backlog(r.Rate)) / 2
		}
		if c.Of == ofLoad || c.Name == queuedCurve {
			c.Without = outages
		}
		if c.Rule == soak.PerExecution && executions == nil {
			c.Judgement = soak.Judgement{Text: "no execution ended"}
		} else {
			c.Judgement = c.Judge(from, to, executions)
		}
		sum := soak.Summary{Name: c.Name, Of: c.Of, Unit: c.Unit, Judgement: c.Judgement}
		if points := c.Points(); len(points) > 0 {
			sum.Last = points[len(points)-1].Value
		}
		r.Summaries = append(r.Summaries, sum)
		if c.Judgement.Grows {
			grows = append(grows, fmt.Sprintf("%s of %s %s", c.Name, c.Of, c.Judgement.Text))
		}
	}
	r.Answers = []soak.Answer{
		sr.answerQuestion(r, soak.NothingLost, lostRules, "acceptance"), sr.answerQuestion(r, soak.NothingTwice, twiceRules, ""), sr.answerQuestion(r, soak.NothingUnearned, unearnedRules, ""), flatnessAnswer(r, grows),
	}
	for _, a := range r.Answers {
		r.Verdict = max(r.Verdict, a.Verdict)
		if a.Verdict != verdict.Pass {
			r.Why = append(r.Why, a.Question+": "+a.Text)
		}
	}
	said := slices.Concat(lostRules, twiceRules, unearnedRules)
	for i := range r.Violations {
		v := &r.Violations[i]
		if v.Name == "acceptance" || slices.Contains(said, v.Invariant) {
			continue
		}
		r.Verdict = verdict.Fail
		r.Why = append(r.Why, fmt.Sprintf("%s: %s", v.Name, v.Message))
	}
	inconclusive := func(why string) {
		r.Verdict = max(r.Verdict, verdict.Inconclusive)
		r.Why = append(r.Why, why)
	}
	if sr.w.unable != nil {
		inconclusive(r.Noise + "; executions that were open then are not judged")
	}
	if r.Unread != "" {
		inconclusive(r.Unread)
	}
	for i := range r.Excused {
		inconclusive(fmt.Sprintf("%s was broken while the machine was too noisy for a verdict: %s", r.Excused[i].Name, r.Excused[i].Message))
	}
	for _, missed := range r.Missed() {
		if !r.Interrupted && sr.w.failReason() == "" {
			inconclusive(missed + " made no difference to anything, however often")
		}
	}
	if sr.ledger.Ended == 0 {
		inconclusive("no execution ended: there was nothing to judge")
	}
}

// answerQuestion answers a question from the results of its invariants.
func (sr *soakRun) answerQuestion(r *soak.Result, question string, rules []int, name string) soak.Answer {
	a := soak.Answer{Question: question}
	for i := range r.Violations {
		if v := &r.Violations[i]; slices.Contains(rules, v.Invariant) || name != "" && v.Name == name {
			a.Verdict = verdict.Fail
			a.Text = fmt.Sprintf("execution %d: %s", v.Execution, v.Message)
			return a
		}
	}
	for i := range r.Excused {
		if v := &r.Excused[i]; slices.Contains(rules, v.Invariant) {
			a.Verdict = verdict.Inconclusive
			a.Text = fmt.Sprintf("execution %d, while the machine stood still: %s", v.Execution, v.Message)
			return a
		}
	}
	var rests []string
	for _, j := range r.Judged {
		if slices.Contains(rules, j.Number) && j.Not == "" {
			rests = append(rests, fmt.Sprintf("%s (%d times)", j.Name, j.Occasions))
		}
	}
	if question == soak.NothingLost && sr.w.unable != nil && sr.ledger.Open() > 0 {
		a.Verdict = verdict.Inconclusive
		a.Text = fmt.Sprintf("%d of %d accepted executions had ended when the harness could not continue", sr.ledger.Ended, r.Accepted)
		return a
	}
	if question == soak.NothingLost {
		rests = append([]string{fmt.Sprintf("%d accepted, %d ended", r.Accepted, sr.ledger.Ended)}, rests...)
	}
	a.Text = "judged: " + strings.Join(rests, ", ")
	return a
}

// flatnessAnswer answers the question whether the curves are flat.
func flatnessAnswer(r *soak.Result, grows []string) soak.Answer {
	a := soak.Answer{Question: soak.AllFlat}
	judged := 0
	for _, c := range r.Curves {
		if c.Judgement.Judged {
			judged++
		}
	}
	switch {
	case len(grows) > 0:
		a.Verdict, a.Text = verdict.Fail, strings.Join(grows, "; ")
	case judged == 0:
		a.Verdict, a.Text = verdict.Inconclusive, "the soak was too short to judge a curve"
	default:
		a.Text = fmt.Sprintf("%d of %d curves judged; the others are only shown", judged, len(r.Curves))
	}
	return a
}
