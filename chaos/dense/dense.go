// Package dense maps consecutive numbers, such as those of executions and messages, to values. A table
// takes less time and memory than a map, and values in use at the same time share few cache lines.
//
// Values are stored in pages of pageSize consecutive numbers. A page that becomes empty is reused, so a table
// is as large as its current content. Numbers that are far apart, as in a foreign file, cost one page each.
package dense

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

const (
	pageBits = 6
	pageSize = 1 << pageBits
)

// Table maps numbers to values. The zero value is empty and ready for use. It is for one task at a time.
type Table[K ~int64 | ~uint64, V any] struct {
	// last is the most recently used page: values in use at the same time share few pages.
	last *page[V]
	// chains is a hash table of the pages, keyed by their numbers, with 1 << width chains.
	chains []*page[V]
	width  uint
	pages  int
	spare  *page[V]
	values int
}

// page holds the values of pageSize consecutive numbers. used has a bit for each present value.
type page[V any] struct {
	number uint64
	used   uint64
	next   *page[V] // next page in its chain, or next spare page
	values [pageSize]V
}

// Len returns the number of values.
func (t *Table[K, V]) Len() int { return t.values }

// At returns a pointer to the value of a number, or nil if it has none. It is valid until the value is
// deleted.
func (t *Table[K, V]) At(k K) *V {
	if p := t.findPage(uint64(k) >> pageBits); p != nil && p.used>>(uint64(k)%pageSize)&1 != 0 {
		return &p.values[uint64(k)%pageSize]
	}
	return nil
}

// Get returns the value of a number, or the zero value if it has none.
func (t *Table[K, V]) Get(k K) (v V) {
	if at := t.At(k); at != nil {
		return *at
	}
	return v
}

// Set stores a value, replacing any existing one.
func (t *Table[K, V]) Set(k K, v V) { *t.Make(k) = v }

// Make returns a pointer to the value of a number, and creates a zero value if it has none. It is valid until
// the value is deleted.
func (t *Table[K, V]) Make(k K) *V {
	number := uint64(k) >> pageBits
	p := t.findPage(number)
	if p == nil {
		p = t.addPage(number)
	}
	bit := uint64(1) << (uint64(k) % pageSize)
	if p.used&bit == 0 {
		p.used |= bit
		t.values++
	}
	return &p.values[uint64(k)%pageSize]
}

// Delete removes the value of a number, if it has one.
func (t *Table[K, V]) Delete(k K) {
	number, bit := uint64(k)>>pageBits, uint64(1)<<(uint64(k)%pageSize)
	p := t.findPage(number)
	if p == nil || p.used&bit == 0 {
		return
	}
	var none V
	p.values[uint64(k)%pageSize] = none
	t.values--
	if p.used &^= bit; p.used == 0 {
		t.dropPage(p)
	}
}

// All iterates over all values, ordered by their numbers as unsigned integers. Values may be deleted or added
// during the iteration; added ones may be left out.
func (t *Table[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		numbers := make([]uint64, 0, t.pages)
		for _, p := range t.chains {
			for ; p != nil; p = p.next {
				numbers = append(numbers, p.number)
			}
		}
		slices.SortFunc(numbers, cmp.Compare)
		for _, n := range numbers {
			// The page may have been removed, and reused for other numbers.
			p := t.findPage(n)
			if p == nil {
				continue
			}
			for used := p.used; used != 0 && p.number == n; used &= used - 1 {
				i := bits.TrailingZeros64(used)
				if p.used>>i&1 != 0 && !yield(K(n<<pageBits|uint64(i)), p.values[i]) {
					return
				}
			}
		}
	}
}

// findPage returns a number's page, or nil if it has none.
func (t *Table[K, V]) findPage(number uint64) *page[V] {
	if p := t.last; p != nil && p.number == number {
		return p
	}
	if t.pages == 0 {
		return nil
	}
	for p := t.chains[t.chainIndex(number)]; p != nil; p = p.next {
		if p.number == number {
			t.last = p
			return p
		}
	}
	return nil
}

// chainIndex returns the index of a page's chain: the upper bits of a product with the golden ratio, so
// that neither consecutive nor regularly spaced numbers share a chain.
func (t *Table[K, V]) chainIndex(number uint64) uint64 {
	return number * 0x9E3779B97F4A7C15 >> (64 - t.width)
}

// addPage adds an empty page.
func (t *Table[K, V]) addPage(number uint64) *page[V] {
	if t.pages >= len(t.chains) {
		t.growChains()
	}
	p := t.spare
	if p == nil {
		p = new(page[V])
	} else {
		t.spare = p.next
	}
	at := t.chainIndex(number)
	p.number, p.next = number, t.chains[at]
	t.chains[at], t.last = p, p
	t.pages++
	return p
}

// growChains makes room for twice as many pages.
func (t *Table[K, V]) growChains() {
	old := t.chains
	t.width = max(3, t.width+1)
	t.chains = make([]*page[V], 1<<t.width)
	for _, p := range old {
		for p != nil {
			next, at := p.next, t.chainIndex(p.number)
			p.next, t.chains[at] = t.chains[at], p
			p = next
		}
	}
}

// dropPage removes an empty page and keeps it as a spare.
func (t *Table[K, V]) dropPage(p *page[V]) {
	for at := &t.chains[t.chainIndex(p.number)]; ; at = &(*at).next {
		if *at == p {
			*at = p.next
			break
		}
	}
	if t.last == p {
		t.last = nil
	}
	t.pages--
	p.next, t.spare = t.spare, p
}
