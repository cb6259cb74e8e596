package executor

import (
	"slices"
	"testing"

	"handoff/core/config"
)

// A pass offers twice as many places as recent passes found rows, at least eight and at most a batch. After a
// pass that offered too few, the next one offers a batch.
func TestOfferSizeFollowsRecentPasses(t *testing.T) {
	c := config.Default(config.Hardened)
	c.Executor.BatchSize = 100
	s := &scheduler{Service: &Service{config: c}}
	for _, pass := range []struct {
		rows int
		full bool
		want int // places of the next pass
	}{{0, false, 8}, {8, true, 100}, {30, false, 100}, {3, false, 50}, {0, false, 24}, {0, false, 12}, {0, false, 8}, {200, false, 100}} {
		if s.noteDispatched(pass.rows, pass.full); s.placesPerOffer() != pass.want {
			t.Errorf("after a pass of %d rows, too short: %v, the next one has %d places, want %d", pass.rows, pass.full, s.placesPerOffer(), pass.want)
		}
	}
}

// A short pass whose offer is full is not a sign of load, so its rows are spread. A whole batch or room may
// be packed.
func TestShortPassSpreadsRows(t *testing.T) {
	for _, x := range []struct {
		most, batch int
		packed      bool
	}{{4, 100, false}, {4, 4, true}, {20, 100, true}} {
		f := rosterOf(fit(1, loaded(0)), fit(2, loaded(0)))
		f.most, f.ahead = 100, 0
		offers, some := f.buildOffers(x.most, x.batch)
		if !some || len(offers) != 1 {
			t.Fatalf("offers %+v", offers)
		}
		if packed := !slices.Equal(offers[0].Packed, offers[0].Spread); packed != x.packed {
			t.Errorf("%d of a batch of %d: packed is %v, want %v: %+v", x.most, x.batch, packed, x.packed, offers[0])
		}
	}
}
