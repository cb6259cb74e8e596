package mapranges

import (
	"maps"
	"reflect"
	"slices"
)

type index map[string]int

func bad(m map[string]int, i index) {
	for k := range m { // want `range over a map: its order is random`
		_ = k
	}
	for _, v := range i { // want `range over a map`
		_ = v
	}
	for k := range maps.Keys(m) { // want `maps\.Keys: map order is random`
		_ = k
	}
	_ = slices.Collect(maps.Values(m)) // want `maps\.Values`
	for k, v := range maps.All(m) {    // want `maps\.All`
		_, _ = k, v
	}
	keys := maps.Keys(m) // want `maps\.Keys`
	_ = slices.Sorted(keys)
	_ = reflect.ValueOf(m).MapKeys() // want `reflect\.Value\.MapKeys`
}

func generic[M ~map[K]V, K comparable, V any](m M) {
	for k := range m { // want `range over a map`
		_ = k
	}
}

func good(m map[string]int) (n int) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		n += m[k]
	}
	_ = slices.SortedFunc(maps.Values(m), func(a, b int) int { return a - b })
	_ = slices.Sorted(maps.Keys[map[string]int](m))
	for range m {
		n++
	}
	for _, v := range m { //detlint:ok a sum does not depend on the order
		n += v
	}
	_ = maps.Clone(m)
	clear(m)
	return n
}
