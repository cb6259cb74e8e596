package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"handoff/core/store"
)

// observationView is an observation in responses.
type observationView struct {
	ID        int64  `json:"id"`
	Part      string `json:"part"`
	Execution *int64 `json:"execution"`
	Epoch     *int64 `json:"epoch"`
	Worker    *int64 `json:"worker"`
	// WorkerName is null if the worker's name is not known.
	WorkerName *string `json:"worker_name"`

	Would   string  `json:"would"`
	Reason  string  `json:"reason"`
	At      *string `json:"at"`
	EndedAt *string `json:"ended_at"`
}

func (s *Server) viewObservation(o *store.Observation) observationView {
	return observationView{
		ID: o.ID, Part: o.Part, Execution: numberOrNil(int64(o.Key.ID)), Epoch: numberOrNil(int64(o.Key.Epoch)), Worker: numberOrNil(int64(o.Worker.ID)), WorkerName: s.nameOf(o.Worker.ID),
		Would: o.Would, Reason: o.Reason, At: timeOrNil(o.At), EndedAt: timeOrNil(o.EndedAt),
	}
}

// listObservations serves GET /api/v1/observations?part=NAME&execution=ID&worker=ID&before=ID&limit=N, newest first.
func (s *Server) listObservations(w http.ResponseWriter, r *http.Request) *Problem {
	var q store.ObservationQuery
	return servePage(s, w, r, pageSpec{"observations", "before", []parameter{
		{"part", func(text string) error {
			if parts := []string{store.PartMonitor, store.PartProber}; !slices.Contains(parts, text) {
				return fmt.Errorf("allowed: %s, %s", parts[0], parts[1])
			}
			q.Part = text
			return nil
		}},
		{"execution", readID(&q.Execution)},
		{"worker", readID(&q.Worker)},
		{"before", readID(&q.Before)},
	}, defaultPage, nil}, func(ctx context.Context, limit int) ([]store.Observation, error) {
		q.Limit = limit
		return s.Store.Observations(ctx, q)
	}, func(o *store.Observation) any { return s.viewObservation(o) }, func(last *store.Observation) any { return last.ID })
}
