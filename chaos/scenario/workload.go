package scenario

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/fault"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

// readWorkload reads the submissions and cancellations. A step can refer only to earlier steps, so a workflow
// can't contain a cycle.
func (l *loader) readWorkload(n *yaml.Node, configOK bool) {
	l.stepsOK = true
	items, ok := l.Items(n, "workload")
	if ok && len(items) == 0 {
		l.Refuse(n, "workload is empty: nothing would happen")
	}
	for _, item := range items {
		if valueOf(item, "cancel") != item {
			l.readCancelStep(item)
			continue
		}
		before := len(l.s.Workload)
		if m, ok := l.Mapping(item, loadShape()); ok {
			l.readLoad(item, m, configOK)
		}
		added := l.s.Workload[before:]
		l.stepsOK = l.stepsOK && len(added) == 1 && added[0].Action != "" && added[0].Count > 0
	}
}

// readActionRef reads the name of a declared action.
func (l *loader) readActionRef(n *yaml.Node, what string) string {
	if !l.actionsOK {
		return ""
	}
	var refs []string
	for _, a := range l.s.Actions {
		refs = append(refs, a.Ref)
	}
	name, _ := l.Choice(n, what, refs)
	return name
}

// readSubmittedAction reads the name of an action that earlier steps submit. ok is false if it was refused,
// or if an unreadable earlier step leaves its submissions unknown.
func (l *loader) readSubmittedAction(n *yaml.Node, what string) (name string, ok bool) {
	if !l.stepsOK {
		return l.readActionRef(n, what), false
	}
	return l.Choice(n, what, l.submittedActions())
}

func (l *loader) readLoad(item *yaml.Node, m yamlfile.Mapping, configOK bool) {
	var load Load
	if a := m.At("action"); a != nil {
		load.Action = l.readActionRef(a, "action")
	}
	if c := m.At("count"); c != nil {
		v, _ := l.Integer(c, "count", 1, maxCount)
		load.Count = int(v)
	}
	if e := m.At("every"); e != nil {
		load.Every, _ = l.Duration(e, "every", 0)
	}
	if f := m.At("from"); f != nil {
		load.From, _ = l.Duration(f, "from", 0)
	}
	if p := m.At("pin"); p != nil && l.clusterOK {
		load.Pin, _ = l.Choice(p, "worker", l.s.Cluster.WorkerNames())
	}
	if c := m.At("copies"); c != nil {
		v, _ := l.Integer(c, "copies", 1, maxCopies)
		load.Copies = int(v)
	}
	if n := m.At("siblings"); n != nil {
		v, _ := l.Integer(n, "siblings", 1, maxCount)
		load.Siblings = int(v)
		if !m.Has("parent") {
			l.Refuse(n, "siblings needs parent beside it: it says how many children each parent gets")
		}
	}
	if p := m.At("parent"); p != nil {
		if name, ok := l.readSubmittedAction(p, "parent"); ok && load.Count > 0 {
			load.Parent = name
			parents := l.s.SubmissionsOf(name)
			switch needed := load.ParentOf(load.Count-1) + 1; {
			case needed <= parents:
			case load.Siblings > 1:
				l.Refuse(p, "%d children, %d for each parent, need %d parents, and the steps above submit %d of %s", load.Count, load.Siblings, needed, parents, name)
			default:
				l.Refuse(p, "%d children need as many parents, and the steps above submit %d of %s", load.Count, parents, name)
			}
		}
	}
	load.Limits = l.readLimits(m, configOK)
	if a := m.At("again"); a != nil && l.stepsOK {
		l.readAgain(a, &load)
	}
	if load.Count > 1 && load.Every > (yamlfile.MaxDuration-load.From)/time.Duration(load.Count-1) {
		l.Refuse(item, "the last of %d submissions would come more than %s after the start", load.Count, yamlfile.Short(yamlfile.MaxDuration))
		return
	}
	before := l.s.mostRows()
	l.s.Workload = append(l.s.Workload, load)
	if rows := l.s.mostRows(); rows > maxRows && before <= maxRows {
		l.Refuse(item, "with this step the workload has up to %d executions, counted with copies and with all retries that they may have; a scenario has at most %d", rows, maxRows)
	}
}

// mostRows returns the largest number of executions that the workload can create, with copies and retries.
func (s *Scenario) mostRows() (rows int) {
	for i := range s.Workload {
		load := &s.Workload[i]
		retries := load.Limits.MaxRetries
		for _, a := range s.Actions {
			if a.Ref == load.Action && !load.Limits.OwnRetries {
				retries = a.MaxRetries
			}
		}
		rows += load.Count * (max(1, load.Copies) + retries)
	}
	return rows
}

// readAgain reads the number of the earlier load whose idempotency keys this load repeats. Within 24 hours a
// request would get the old execution; the extra five minutes cover requests that were accepted late.
func (l *loader) readAgain(n *yaml.Node, load *Load) {
	const after = execution.KeyLifetime + 5*time.Minute
	v, ok := l.Integer(n, "again", 1, maxCount)
	if !ok {
		return
	}
	if int(v) > len(l.s.Workload) {
		l.Refuse(n, "again is %d, and only %d steps above submit executions: it is the number of one of them", v, len(l.s.Workload))
		return
	}
	first := &l.s.Workload[v-1]
	last := func(l *Load) time.Duration { return l.From + l.Every*time.Duration(load.Count-1) }
	switch {
	case first.Action != load.Action || first.Count < load.Count:
		l.Refuse(n, "again is %d, and step %d submits %d of %s: use the same action and at most its count", v, v, first.Count, first.Action)
	case load.From < first.From+after || last(load) < last(first)+after:
		l.Refuse(n, "an idempotency key can be used again after %s: each submission must come at least %s after the same one of step %d",
			yamlfile.Short(execution.KeyLifetime), yamlfile.Short(after), v)
	case slices.Contains(l.s.Worlds, Live):
		l.Refuse(n, "again needs keys to expire, which takes %s, too long for the live world: write worlds: [sim]", yamlfile.Short(execution.KeyLifetime))
	case load.Limits != first.Limits && load.Limits != execution.Limits{}:
		l.Refuse(n, "again sends the requests of step %d again, so it has the limits of that step: leave timeout, dispatch_timeout and max_retries out", v)
	default:
		load.Again, load.Limits = int(v), first.Limits
	}
}

// submittedActions lists the actions of the steps read so far.
func (l *loader) submittedActions() []string {
	var refs []string
	for _, load := range l.s.Workload {
		if !slices.Contains(refs, load.Action) {
			refs = append(refs, load.Action)
		}
	}
	return refs
}

func (l *loader) readCancelStep(item *yaml.Node) {
	m, ok := l.Mapping(item, cancelStepShape())
	if !ok {
		return
	}
	if m, ok = l.Mapping(m.At("cancel"), cancelShape()); !ok {
		return
	}
	c := Cancel{Nth: 1, Count: 1}
	if n := m.At("nth"); n != nil {
		v, _ := l.Integer(n, "nth", 1, maxCount)
		c.Nth = int(v)
	}
	if n := m.At("count"); n != nil {
		v, _ := l.Integer(n, "count", 1, maxCount)
		c.Count = int(v)
	}
	if n := m.At("at"); n != nil {
		c.At, _ = l.Duration(n, "at", 0)
		c.Timed = true
	}
	if n := m.At("after"); n != nil {
		if c.Timed {
			l.Refuse(n, "give either after or at: a cancellation comes at a time or after a submission")
		}
		d := fault.ReadDrawn(l.Reader, n, "after", 0)
		c.AfterMin, c.AfterMax, c.AfterLog = d.Least, d.Most, d.Log
	}
	if n := m.At("action"); n != nil {
		if c.Action, ok = l.readSubmittedAction(n, "action"); ok && c.Nth+c.Count-1 > l.s.SubmissionsOf(c.Action) {
			l.Refuse(n, "execution %d of %s can't be cancelled: the steps above submit %d", c.Nth+c.Count-1, c.Action, l.s.SubmissionsOf(c.Action))
		}
	}
	l.s.Cancels = append(l.s.Cancels, c)
}

// Submissions returns the number of executions that the workload submits.
func (s *Scenario) Submissions() int {
	total := 0
	for _, load := range s.Workload {
		total += load.Count
	}
	return total
}

// SubmissionsOf returns the number of executions of one action that the workload submits.
func (s *Scenario) SubmissionsOf(action string) int {
	total := 0
	for _, load := range s.Workload {
		if load.Action == action {
			total += load.Count
		}
	}
	return total
}

// Generations returns the largest number of consecutive chains in a workflow: 1 without workflow children.
func (s *Scenario) Generations() int {
	depth, most := map[string]int{}, 1
	for _, load := range s.Workload {
		own := 1
		if load.Parent != "" {
			own = depth[load.Parent] + 1
		}
		depth[load.Action] = max(depth[load.Action], own)
		most = max(most, own)
	}
	return most
}

// LastSubmission returns the time of the last submission or cancellation, if the API accepts each request at
// once.
func (s *Scenario) LastSubmission() time.Duration {
	var last time.Duration
	for _, load := range s.Workload {
		last = max(last, load.From+load.Every*time.Duration(load.Count-1))
	}
	cancelled := last
	for _, c := range s.Cancels {
		cancelled = max(cancelled, c.At, last+c.AfterMax)
	}
	return cancelled
}
