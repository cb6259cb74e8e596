// Package oracle computes what the contract says, apart from the core: who may change which status, which failures may
// be retried, how long a backoff, a lease and a run are, when the brake holds, what a worker's evidence makes of it, and
// who gets the next execution.
//
// Invariants judge by it, and the models of database and broker use it where the real server has its own text. A judge
// that asked the core would agree with every mistake of the core. So each function here was written from a sentence of
// docs, which its comment names, and never from the code that it judges. It takes from core only data: the configuration
// as it was read, and the names of statuses, reasons and parts. What computes something is refused by the linter
// (forbidigo in .golangci.yaml), here and in whatever judges.
//
// All functions are pure. Where the two differ, one of them departs from the text: the property tests of this package
// compare them, and so does every run.
package oracle
