// Package postgres is the store on PostgreSQL.
//
// # One shape of statement
//
// Every guarded write is one statement of the same steps:
//
//	asked   the caller's request, a row per element of the arrays that it sends
//	owner   the incarnations that the guard looks at, locked so that they stay as they are
//	locked  the work of the executions, locked in the order of their ids, in the current version
//	clock   one moment, read after the last lock: the "now" of the whole step
//	judged  the guard, decided on the locked rows at that moment
//	moved   the update of the rows that the guard admits
//	over    the end of the rows that the step ends, with the deletion of their work
//
// It answers with the row after the step if the step was applied, and with the current row if it
// was refused. A row that has ended has no work to lock: it is read afterwards (see refuseEnded), because
// an end is final.
//
// The guard judges the locked rows; it is not in the WHERE of the update. In READ COMMITTED an update first
// looks at its snapshot. If a row came to satisfy the guard while the statement waited for its lock, the
// update would skip it, although the returned row satisfies the guard. And if the moment was read before the
// wait, a claim could succeed after its deadline. Locking first has neither problem. It also takes the locks
// in one order, so that two batches wait for each other in one direction at most: incarnations before
// executions, each by id.
//
// No statement names a row twice: UPDATE … FROM would apply one of the two changes and silently drop the
// other. If a call names a row twice, it is split into rounds.
//
// # Two tables
//
// An execution has one permanent row (execution_record), which is written when it is created and when it
// ends. Until it has ended, it also has a row of work (execution_work). The view named execution joins both.
// Every step locks the row of work, and an end deletes it and writes the record in the same statement, in
// this order: work before record. A decision about a chain locks the record of its first row. If that row
// itself has not ended, its work is locked before (see lockChain). The update of the record reads whether
// children were created. It judges the newest version of the row that it locks, so it sees a child that was
// created before. A child that is created later waits for the lock and finds the end handled.
//
// A claim, a mark and a request to cancel change no column of any index of work, and an end none of any index
// of the records: each stays on its page (HOT). Rows that have ended and are not handled are in a separate
// list (execution_unhandled). If they had an index of the records, every end would write to it.
//
// A third table, waiting rows apart from held ones, was measured: it saved a tenth of the processor time of
// an execution. Its price: every step that waited for the lock of a row must look for it in both tables. The
// transition table and the audit must combine the changes of two tables at every move. With one row of work,
// the row is where it was, or has ended.
//
// # Audit
//
// The transitions of one statement differ only in the execution, and the executions of one statement are
// mostly neighbours. They are created together, and dispatched in the order of their age, in messages of
// many. So the audit has a row for each kind of transition that a statement made in a block of 64 executions.
// The row has a bit for each of those executions (transition_group). Both of its indexes have an entry a
// group: one for the order of the stream, one for the block. In batches of 100, a life costs 1,673 bytes of
// WAL instead of 3,221, and alone 3,392 instead of 3,352. The history of an execution reads the groups of its
// block, so no more than its neighbours' histories.
//
// # Plans
//
// All statements reach their rows by an index, so the store's connections turn off every plan that would not:
// sequential and bitmap scans, hash and merge joins. One bad choice remains: to read an index from end to end
// and compare each row with the batch. The planner considers that free while the table is small, and a kept
// plan keeps that choice as the table grows. So the session plans a statement for its arguments and for the
// present size of the table. A kept plan from an empty table was seen to take 170 ms for a batch of 100 on a
// table of 10,000. The plan of a statement without parameters inside a function is kept nevertheless. The
// audit's trigger has one, and allows itself hash joins and no nested loops.
//
// For a few rows, planning costs more than executing. So the statements of an execution's life are written so
// that they have only one plan, which is kept: see plans.go. They are creation without keys, dispatch in one
// step, claim, result, handling, mark, and the reads of rows and workers.
//
// TestCosts (chaos/selftest/conformance/postgrestest) counts the cost of each call at n and 2n of everything
// that grows; its list costGrowth names the costs that grow, and why.
//
// # What a caller may conclude from an error
//
// See errors.go. In short: if the server itself wrote a refusal, nothing was applied; if a
// statement was sent and not answered, the outcome is unknown.
package postgres
