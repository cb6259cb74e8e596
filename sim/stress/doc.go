// Package stress runs executors and workers on the real host, as goroutines on all processors. There the
// race detector can find races that the simulator can't show, because it runs one task at a time. The
// package holds only tests.
//
// The servers are the models of package sim. They live in their own kernel, whose virtual time follows the
// clock of the test; one lock orders all callers (servers_test.go). The clock runs fast, so that timers of
// the default configuration take milliseconds and every task runs often within a few seconds.
//
// The lock of the servers orders their callers. This hides races between accesses that always have a call
// between them. Calls are few compared with accesses, and the order of the calls differs in each round, so
// thousands of rounds leave little room for such a race; the mutants of sim/weave show this.
package stress
