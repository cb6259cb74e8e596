// Package execution is the domain: what an execution is, its statuses, which part may change a
// status, and why an execution can fail. It is pure: no clock, no storage, no messages.
//
// Two ideas carry the rest of the project. First, the epoch is the fencing token of one execution.
// It grows by one at every dispatch and at every take-back, so a process that still uses an older
// epoch acts on a dispatch that is no longer valid. Second, ownership moves with the row, not with
// messages. Before the handoff the executor owns an execution; after the claim the worker owns it.
// In between, the executor may only take it back, along the changes in Transitions.
package execution
