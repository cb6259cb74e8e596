// Package dense holds a value for each of many consecutive numbers, as executions and messages have them: a table costs
// less time and less memory than a map of them, and few cache lines are touched by those that are alive together.
//
// Values stand in pages of pageSize consecutive numbers. A page whose last value goes is used again for the next one that
// is needed, so that a table is as large as what is alive, and not as what ever was. Numbers that lie far apart, which
// only a file from elsewhere has, cost a page each and no more.
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

// Table is a table of values by number. The zero value is empty and ready for use. It is for one task at a time.
type Table[K ~int64 | ~uint64, V any] struct {
	// last is the page that was used last: those that are alive together stand in few.
	last *page[V]
	// chains are the pages by a hash of their numbers, 1 << width of them.
	chains []*page[V]
	width  uint
	pages  int
	spare  *page[V]
	values int
}

// page holds the values of pageSize consecutive numbers, of which used has a bit for each that is there.
type page[V any] struct {
	number uint64
	used   uint64
	next   *page[V] // in its chain, or among the spare ones
	values [pageSize]V
}

// Len is how many values there are.
func (t *Table[K, V]) Len() int { return t.values }

// At returns the place of a value, nil if there is none. It is valid until the value is deleted.
func (t *Table[K, V]) At(k K) *V {
	if p := t.findPage(uint64(k) >> pageBits); p != nil && p.used>>(uint64(k)%pageSize)&1 != 0 {
		return &p.values[uint64(k)%pageSize]
	}
	return nil
}

// Get returns a value, the zero value if there is none.
func (t *Table[K, V]) Get(k K) (v V) {
	if at := t.At(k); at != nil {
		return *at
	}
	return v
}

// Set puts a value in the place of the one that there may be.
func (t *Table[K, V]) Set(k K, v V) { *t.Make(k) = v }

// Make returns the place of a value, which begins as the zero value if there was none. It is valid until the value is
// deleted.
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

// Delete deletes a value, if there is one.
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

// All calls yield for each value, by number as it is without a sign. A value may be deleted, or added, meanwhile: one that
// is added may be left out.
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
			// The page may have gone, and come again for other numbers.
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

// findPage returns the page of a number, nil if there is none.
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

// chainIndex is the place of a page's chain: the upper bits of a product with the golden ratio, so that neither consecutive
// numbers nor those at regular distances share a chain.
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

// dropPage takes an empty page out.
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
