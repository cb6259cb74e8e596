// Package postgres is the store on PostgreSQL.
//
// # One shape of statement
//
// Every guarded write is one statement of five steps, and reading one is reading all:
//
//	asked   what the caller wants, a row per element of the arrays that it sends
//	owner   the incarnations that the guard looks at, locked so that they stay as they are
//	locked  the work of the executions, locked in the order of their ids, in the version that stands now
//	clock   one moment, read after the last lock was got: the "now" of the whole step
//	judged  the guard, decided on the locked rows at that moment
//	moved   the update of what was judged lawful
//	over    the end of what was judged to end, with the deletion of its work
//
// and it answers with the row after the step for what was applied, and with the row that stands
// there for what was refused. What has ended has no work to lock: it is read afterwards (see ended), as an end is final.
//
// The guard stands on the locked rows and not in the WHERE of the update. In READ COMMITTED an
// update first looks at its snapshot: a row that became lawful while the statement waited for its
// lock would be passed over although the row that is answered fits the guard. And a moment that was
// read before waiting would let a claim slip in after its deadline. Locking first has neither
// problem, and it takes the locks in one order, so that two batches wait for each other at most in
// one direction: incarnations before executions, each by id.
//
// No statement names a row twice: UPDATE … FROM would apply one of the two and drop the other in
// silence. A call that does is split into rounds.
//
// # Two tables
//
// An execution has a row for good (execution_record), which is written when it is created and when it ends, and a row of work
// (execution_work) until it has ended. The view named execution is both. Every step locks the row of work, and an end
// deletes it and writes the record in the same statement, in this order: work before record. A decision about a chain locks
// the record of its first row; where that row itself has not ended, its work is locked before (see lockChain). Whether
// children have come is read by the update of the record, which judges the newest version of the row that it locks: a child
// that was created before is seen, and one that is created later waits for the lock and finds the end handled.
//
// A claim, a mark and a request to cancel change no column of any index of work, and an end none of any index of the records:
// each stays on its page (HOT). What has ended and is not handled stands in a list of its own (execution_unhandled): an index of
// the records for it would be written at every end.
//
// What waits and what somebody holds were tried in two tables as well, which makes three. In a prototype (one backend, batches
// of 100, creation, dispatch, claim and end, with law and audit, processor time of the backend by schedstat, four runs each) that was
// 92 to 106 µs an execution and two tables 104 to 118 (with 100,000 rows that wait beside it 103 to 107 and 114 to 142), at
// 2,650 and 2,675 bytes of WAL. The rest of the difference is the dispatch, which writes one version and two index entries in
// either layout, and deletes nothing in this one. For that, a row that moves between tables has to be looked for in both by every
// step that waited for its lock, and the law and the audit have to put two tables' changes together at every move. One row of
// work is found where it was, or has ended.
//
// # Plans
//
// All statements reach their rows by an index, so the store's connections turn off every plan that
// would not: sequential and bitmap scans, hash and merge joins. That leaves one bad choice: to read an
// index from end to end and compare each row with the batch, which costs the planner nothing while the
// table is small. A plan that is kept keeps that choice as the table grows, so the session plans a
// statement for its arguments and for the size that the table has now: a kept plan from an empty table
// was seen to take 170 ms for a batch of 100 on a table of 10,000. A statement without parameters inside a function is kept
// all the same: the audit's trigger has one, and allows itself hash joins and no nested loops.
//
// Planning costs more than executing such a statement for a few rows. So those of an execution's life (creation without keys,
// claim, result, handling, mark, and the reads of rows and workers) are written so that they have one plan, which is kept:
// see plans.go.
//
// What each call costs at n and 2n of everything that grows is counted by TestCosts (chaos/conformance/postgrestest) and listed in docs/costs.md.
//
// # What a caller may conclude from an error
//
// See errors.go. In one sentence: a refusal that the server itself wrote means that nothing was
// applied, a statement that was sent and not answered means that nobody knows.
package postgres
