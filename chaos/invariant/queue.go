package invariant

// queue is a first-in, first-out queue. It reuses its storage, so a queue that is emptied as fast as it is
// filled allocates nothing.
type queue[T any] struct {
	all  []T
	head int
}

func (q *queue[T]) add(one T) {
	if q.head > 0 && len(q.all) == cap(q.all) && q.head >= len(q.all)/2 {
		n := copy(q.all, q.all[q.head:])
		clear(q.all[n:])
		q.all, q.head = q.all[:n], 0
	}
	q.all = append(q.all, one)
}

// first returns the oldest element, if there is one.
func (q *queue[T]) first() (one T, any bool) {
	if q.head == len(q.all) {
		return one, false
	}
	return q.all[q.head], true
}

// drop removes the oldest element.
func (q *queue[T]) drop() {
	var none T
	q.all[q.head] = none
	if q.head++; q.head == len(q.all) {
		q.all, q.head = q.all[:0], 0
	}
}

// spareEntry returns an unused entry, or a new one. New entries are allocated several at a time.
func spareEntry[T any](of *[]*T) *T {
	if len(*of) == 0 {
		block := make([]T, 16)
		for i := range block {
			*of = append(*of, &block[i])
		}
	}
	n := len(*of) - 1
	one := (*of)[n]
	*of = (*of)[:n]
	return one
}
