package executor

import (
	"context"
	"log/slog"
	"slices"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// Most executions have no concurrency limit and no pin, and avoid no worker. Then the choice of their worker
// depends only on how many executions came before. So the scheduler assigns workers to the first row, the
// second, and so on, before it knows the rows. One statement claims and dispatches them
// (store.Executor.DispatchDue). All other rows take two steps: a claim, and a dispatch by the needs of the
// row. The first statement reports whether there are such rows, and doesn't overtake any of them.
//
// The workers of an offer must all fit the same runtimes and share none of them with other workers. Otherwise
// the best worker for a row depends on the other rows (placeRows), and the two steps decide.

// leastPlaces is the minimum number of places in an offer, if that many are free. Each place costs the
// executor and the database time, whether or not a row is due for it.
const leastPlaces = 8

// placesPerOffer returns the number of places in each offer of the next pass: twice the rows that recent
// passes found, at most a batch. A pass that offered too few is followed by one that offers a batch.
func (s *scheduler) placesPerOffer() int {
	return min(s.config.Executor.BatchSize, max(leastPlaces, 2*s.recent))
}

// noteDispatched records how many rows a pass dispatched directly, and whether it offered too few places.
func (s *scheduler) noteDispatched(rows int, full bool) {
	s.recent = max(rows, s.recent/2)
	if full {
		s.recent = s.config.Executor.BatchSize
	}
}

// buildOffers returns the free places of groups of workers, at most `most` in each offer. batch is the
// largest number that a pass may take. The loads stay unchanged.
func (ro *roster) buildOffers(most, batch int) (offers []store.Offer, some bool) {
	for _, runtimes := range ro.runtimeGroups() {
		row := execution.Execution{Action: execution.Action{Runtime: runtimes[0]}}
		o := store.Offer{Runtimes: runtimes, Spread: ro.dealPlaces(&row, most, false)}
		o.Packed = o.Spread
		// A short pass whose offer is full is not a sign of load.
		if ro.most > 1 && (most == batch || len(o.Spread) < most) {
			o.Packed = ro.dealPlaces(&row, most, true)
		}
		some = some || len(o.Spread) > 0
		offers = append(offers, o)
	}
	return offers, some
}

// runtimeGroups returns the sets of runtimes for which some workers fit the whole set, and no other worker
// fits any of it.
func (ro *roster) runtimeGroups() [][]string {
	var sets [][]string
	for i := range ro.workers {
		w := &ro.workers[i]
		if len(w.Runtimes) == 0 || !w.Fits(w.Runtimes[0]) {
			continue
		}
		set := w.Runtimes
		known := func(s []string) bool { return slices.Equal(s, set) }
		if slices.ContainsFunc(sets, known) {
			continue // most workers list the same runtimes, so skip the sorting
		}
		if len(set) > 1 {
			set = slices.Clone(set)
			slices.Sort(set)
			set = slices.Compact(set)
		}
		if !slices.ContainsFunc(sets, known) {
			sets = append(sets, set)
		}
	}
	if len(sets) < 2 {
		return sets
	}
	in := make(map[string]int)
	for _, set := range sets {
		for _, r := range set {
			in[r]++
		}
	}
	return slices.DeleteFunc(sets, func(set []string) bool {
		return slices.ContainsFunc(set, func(r string) bool { return in[r] > 1 })
	})
}

// dealPlaces assigns places for as many rows like the given one as there is room for, at most `most`, as
// placeRows does for known rows.
func (ro *roster) dealPlaces(row *execution.Execution, most int, load bool) []store.Place {
	among := ro.findContenders(row)
	room := 0
	for i := range among {
		room += among[i].roomLeft()
	}
	most = min(most, room)
	if most == 0 {
		return nil
	}
	places := make([]store.Place, 0, most)
	for len(places) < most {
		c := &among[ro.pickContender(among)]
		p := store.Place{Worker: ro.workers[c.worker].WorkerKey, Limit: c.limit}
		block := 1
		if load {
			block = ro.blockSize(c.worker)
		}
		for ; block > 0 && len(places) < most && c.roomLeft() > 0; block-- {
			c.load++
			places = append(places, p)
		}
	}
	return places
}

// dispatchDirectly dispatches rows without restrictions in one statement, and publishes them. It reports
// whether other rows must be claimed, and whether another pass may find more to do. It adds the dispatched
// rows to the loads of the roster.
//
// If the outcome is unknown, the executor does not know which rows were dispatched, as after a
// crash: the reconciler publishes them.
func (s *scheduler) dispatchDirectly(f *roster) (others, more bool, err error) {
	c := s.config.Executor
	if !c.DirectDispatch {
		return true, false, nil
	}
	offers, some := f.buildOffers(s.placesPerOffer(), c.BatchSize)
	if !some {
		return true, false, nil
	}
	answer, err := askStore(s.db, s.store.DispatchDue, store.DueDispatch{
		Executor: s.id, Expiry: c.ClaimExpiry, Timeout: c.DispatchTimeout, Offers: offers,
	})
	if err != nil {
		if store.Retriable(err) {
			return false, false, err
		}
		// One of the rows causes the error. The two steps work row by row, so that it can't block all others.
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "dispatching in one step failed, this pass dispatches in two steps",
			slog.Any("error", err))
		return true, false, nil
	}
	s.noteDispatched(len(answer.Rows), answer.Full)
	if len(answer.Rows) > 0 {
		s.warnOfStale(f.workers)
	}
	for i := range answer.Rows {
		row := &answer.Rows[i]
		at := slices.IndexFunc(f.workers, func(w store.WorkerRow) bool { return w.Incarnation == row.Incarnation })
		f.workers[at].Load++
		s.recorder.Add(telemetry.Assignments, 1, telemetry.Labels{f.assessments[at].health.String()})
		s.log.LogAttrs(context.Background(), slog.LevelDebug, "scheduled execution to worker", slog.Int64("execution", int64(row.ID)),
			slog.Int64("epoch", int64(row.Epoch)), slog.Int64("worker", int64(row.Worker)), slog.String("name", f.workers[at].Name))
	}
	if answer.Unfit > 0 {
		// A worker became unavailable between the survey and the statement: retry soon.
		s.scheduleRetryPass(lookAgain)
	}
	return answer.Others, answer.Full && len(answer.Rows) > 0, s.publishDispatches(answer.Rows, f.readsBlocks)
}
