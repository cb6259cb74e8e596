package sim

import "handoff/core/execution"

// Workers returns the names of all workers that ever registered, by id; nil for a result that Run did not
// make.
func (r *Result) Workers() map[execution.WorkerID]string {
	if r.world == nil {
		return nil
	}
	names := make(map[execution.WorkerID]string, r.world.db.Workers())
	for id := execution.WorkerID(1); int(id) <= r.world.db.Workers(); id++ {
		names[id] = r.world.db.WorkerName(id)
	}
	return names
}

// Execution returns an execution's row at the end of the run, and false if there is none.
func (r *Result) Execution(id execution.ID) (execution.Execution, bool) {
	if r.world == nil {
		return execution.Execution{}, false
	}
	return r.world.db.Execution(id)
}
