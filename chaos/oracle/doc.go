// Package oracle computes the rules of the contract independently of the core: which part may change which
// status, which failures may be retried, how long a backoff, a lease and a run are, when the brake holds, how
// evidence determines a worker's health, and which worker gets the next execution.
//
// Invariants judge by these rules, and the models of database and broker use them where the real server has
// its own implementation. A judge that used the core would agree with each of the core's mistakes. So each
// function was written from a sentence of the docs, which its comment names, and never from the judged code.
// It takes only data from core: the configuration, and the names of statuses, reasons and parts. The linter
// (forbidigo in .golangci.yaml) refuses functions of the core that compute something, here and in every
// judge.
//
// All functions are pure. If the core and the oracle differ, one of the two contradicts the docs. This
// package's property tests compare them, and so does every run.
package oracle
