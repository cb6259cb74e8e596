// Package oracle computes the rules of the contract independently of the core: which part may
// change which status, which failures may be retried, how long a backoff, a lease and a run are,
// when the brake holds, how evidence determines a worker's health, and which worker gets the next
// execution.
//
// Invariants judge by it, and the models of database and broker use it where the real server has its own
// implementation. A judge that used the core would agree with every mistake of the core. So each function
// was written from a sentence of docs, which its comment names, and never from the judged code. It takes
// only data from core: the configuration, and the names of statuses, reasons and parts. The linter
// (forbidigo in .golangci.yaml) refuses functions of the core that compute something, here and in every
// judge.
//
// All functions are pure. If core and oracle differ, one of them departs from the text. The property tests
// of this package compare them, and so does every run.
package oracle
