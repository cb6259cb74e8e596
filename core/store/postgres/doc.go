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
// It answers with the row after the step if the step was applied, and with the current row if it was refused.
// A row that has ended has no work to lock: it is read afterwards (see refuseEnded), because an end is final.
//
// The guard judges the locked rows; it is not in the WHERE of the update. In READ COMMITTED an update first
// uses its snapshot. If a row came to satisfy the guard while the statement waited for its lock, the update
// would skip it, although the returned row satisfies the guard. And if the clock was read before the wait, a
// claim could succeed after its deadline. Locking first has neither problem. It also takes the locks in one
// order, so that two batches wait for each other in one direction at most: incarnations before executions,
// each by id.
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
// itself has not ended, its work is locked first (see lockChain). The update of the record reads whether
// children were created. It judges the newest version of the row that it locks, so it sees every child that
// was created earlier. A later child's creation waits for the lock and finds the end handled.
//
// A claim, a mark and a request to cancel change no indexed column of the work, and an end changes no indexed
// column of the record, so each update stays on its page (HOT). Rows that have ended and are not handled are
// in a separate table (execution_unhandled), because every end would have to write to an index on the
// records.
//
// A third table, to separate waiting rows from held ones, was measured: it saved a tenth of an execution's
// processor time. But every step that waited for a row's lock had to search both tables, and the transition
// table and the audit had to combine the changes of two tables at every move. With one row of work, the row
// is where it was, or has ended.
//
// # Audit
//
// The transitions of one statement differ only in the execution, and the executions of one statement are
// mostly neighbours. They are created together, and dispatched together in the order of their age. So the
// audit has a row for each kind of transition that a statement made in a block of 64 executions. The row has
// a bit for each of those executions (transition_group). Its two indexes, for the order of the stream and for
// the block, have one entry per group. An execution's life costs 1,673 bytes of WAL instead of 3,221 in
// batches of 100, and 3,392 instead of 3,352 alone. Reading an execution's history reads the groups of its
// block, which is at most its neighbours' histories.
//
// # Plans
//
// All statements reach their rows by an index, so the store's connections turn off every plan that would not:
// sequential and bitmap scans, hash and merge joins. One bad plan remains possible: to read a whole index and
// compare each row with the batch. The planner considers that free while the table is small, and a kept plan
// would not change as the table grows: one that was made for an empty table took 170 ms for a batch of 100 on
// a table of 10,000. So each statement is planned for its arguments and the table's current size. The plan of
// a statement without parameters inside a function is kept nevertheless. The audit's trigger has such a
// statement, and allows hash joins but no nested loops for it.
//
// For a few rows, planning costs more than executing. So the statements of an execution's life are written so
// that they have only one plan, which is kept: see plans.go. They are creation without keys, dispatch in one
// step, claim, result, handling, mark, and the reads of rows and workers.
//
// TestCosts (chaos/selftest/conformance/postgrestest) measures the cost of each call with n and with 2n rows
// of everything that grows; its list costGrowth names the costs that grow, and why.
//
// # What a caller may conclude from an error
//
// See errors.go. In short: if the server itself refused, nothing was applied; if a statement was sent but not
// answered, the outcome is unknown.
package postgres
