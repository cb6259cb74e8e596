// Package execution is the domain: what an execution is, which statuses it passes through, who may
// move it from one to the next, and why it can fail. It is pure: no clock, no storage, no messages.
//
// Two ideas carry the rest of the project. The epoch is the fencing token of one execution: it
// grows by one at every dispatch and at every take-back, so whoever acts on an older epoch is
// acting on a promise that was withdrawn. And ownership moves with the row, not with messages:
// before the handoff the executor owns an execution, after the claim the worker does, and in
// between the executor may only take it back, lawfully (see Transitions).
package execution
