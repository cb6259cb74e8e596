package kernel

// runQueue holds the runnable tasks in the order in which they became runnable. Taking one from the
// middle keeps the order, so that index 0 always means "the task that has waited longest" and a
// shrunk schedule stays readable.
type runQueue struct {
	items []*Task
	head  int
}

func (q *runQueue) len() int { return len(q.items) - q.head }

func (q *runQueue) at(i int) *Task { return q.items[q.head+i] }

func (q *runQueue) push(t *Task) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items = q.items[:n]
		q.head = 0
	}
	q.items = append(q.items, t)
}

// take removes the i-th task; it moves the shorter side.
func (q *runQueue) take(i int) *Task {
	at := q.head + i
	t := q.items[at]
	if i < q.len()/2 || i == 0 {
		copy(q.items[q.head+1:at+1], q.items[q.head:at])
		q.items[q.head] = nil
		q.head++
	} else {
		last := len(q.items) - 1
		copy(q.items[at:], q.items[at+1:])
		q.items[last] = nil
		q.items = q.items[:last]
	}
	if q.head == len(q.items) {
		q.items = q.items[:0]
		q.head = 0
	}
	return t
}

// extract removes the tasks of p and returns them appended to into, in order.
func (q *runQueue) extract(p *Process, into []*Task) []*Task {
	kept := q.items[:q.head]
	for _, t := range q.items[q.head:] {
		if t.process == p {
			into = append(into, t)
		} else {
			kept = append(kept, t)
		}
	}
	clear(q.items[len(kept):])
	q.items = kept
	return into
}

func (q *runQueue) clear() {
	q.items = nil
	q.head = 0
}
