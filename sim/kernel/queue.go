package kernel

// runQueue holds the runnable tasks in the order in which they became runnable. Removing one from the
// middle keeps the order. So index 0 always means "the task that has waited longest", and a shrunk schedule
// stays readable.
type runQueue struct {
	items []*Task
	head  int
}

func (r *runQueue) len() int { return len(r.items) - r.head }

func (r *runQueue) taskAt(i int) *Task { return r.items[r.head+i] }

func (r *runQueue) push(t *Task) {
	if len(r.items) == cap(r.items) && r.head > len(r.items)/2 {
		n := copy(r.items, r.items[r.head:])
		clear(r.items[n:])
		r.items = r.items[:n]
		r.head = 0
	}
	r.items = append(r.items, t)
}

// removeAt removes the i-th task by moving the tasks on the shorter side.
func (r *runQueue) removeAt(i int) *Task {
	at := r.head + i
	t := r.items[at]
	if i < r.len()/2 || i == 0 {
		copy(r.items[r.head+1:at+1], r.items[r.head:at])
		r.items[r.head] = nil
		r.head++
	} else {
		last := len(r.items) - 1
		copy(r.items[at:], r.items[at+1:])
		r.items[last] = nil
		r.items = r.items[:last]
	}
	if r.head == len(r.items) {
		r.items = r.items[:0]
		r.head = 0
	}
	return t
}

// extractTasks removes the tasks of p and returns them appended to into, in order.
func (r *runQueue) extractTasks(p *Process, into []*Task) []*Task {
	kept := r.items[:r.head]
	for _, t := range r.items[r.head:] {
		if t.process == p {
			into = append(into, t)
		} else {
			kept = append(kept, t)
		}
	}
	clear(r.items[len(kept):])
	r.items = kept
	return into
}

func (r *runQueue) clear() {
	r.items = nil
	r.head = 0
}
