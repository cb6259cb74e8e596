package dense

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// compare compares a table with a map of the same values.
func compare(t *testing.T, got *Table[int64, string], want map[int64]string) {
	t.Helper()
	if got.Len() != len(want) {
		t.Fatalf("the table has %d values, want %d", got.Len(), len(want))
	}
	keys := slices.SortedFunc(maps.Keys(want), func(a, b int64) int {
		if uint64(a) < uint64(b) {
			return -1
		}
		return 1
	})
	at := 0
	for k, v := range got.All() {
		if at == len(keys) || k != keys[at] || v != want[k] {
			t.Fatalf("value %d is %q of %d, want those of %v", at, v, k, keys)
		}
		at++
	}
	for k, v := range want {
		if got.Get(k) != v || got.At(k) == nil {
			t.Fatalf("%d is %q, want %q", k, got.Get(k), v)
		}
	}
}

func TestTableMatchesOrderedMap(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var got Table[int64, string]
		want := make(map[int64]string)
		span := int64(1) << draw.IntN(12)
		for range 2_000 {
			k := draw.Int64N(span)
			if draw.IntN(50) == 0 {
				k = int64(draw.Uint64()) //nolint:gosec // any number
			}
			switch draw.IntN(3) {
			case 0:
				got.Set(k, "a")
				want[k] = "a"
			case 1:
				*got.Make(k) += "b"
				want[k] += "b"
			default:
				got.Delete(k)
				delete(want, k)
			}
			if at := got.At(k); (at != nil) != (want[k] != "") {
				t.Fatalf("%d is there: %v", k, at != nil)
			}
		}
		compare(t, &got, want)
	}
}

func TestTableOfSparseKeysStaysSmall(t *testing.T) {
	var got Table[int64, string]
	want := make(map[int64]string)
	for _, k := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		got.Set(k, "x")
		want[k] = "x"
	}
	compare(t, &got, want)
	if got.pages > len(want) {
		t.Errorf("it has %d pages", got.pages)
	}
}

func TestTableReusesEmptyPages(t *testing.T) {
	var got Table[uint64, int]
	for k := range uint64(100_000) {
		got.Set(k, 1)
		if k >= 1_000 {
			got.Delete(k - 1_000)
		}
	}
	spare := 0
	for p := got.spare; p != nil; p = p.next {
		spare++
	}
	if most := 1_000/pageSize + 3; got.pages+spare > most {
		t.Errorf("it has %d pages and %d spare ones for 1000 values; %d are the most", got.pages, spare, most)
	}
}

func TestDeleteDuringAll(t *testing.T) {
	var got Table[int64, int]
	for k := range int64(300) {
		got.Set(k, int(k))
	}
	seen := 0
	for k := range got.All() {
		seen++
		for other := k; other < k+100; other++ {
			got.Delete(other)
		}
	}
	if seen != 3 || got.Len() != 0 {
		t.Errorf("%d values were seen, and %d are left; want 3 and 0", seen, got.Len())
	}
}
