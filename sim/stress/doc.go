// Package stress runs executors and workers on the real host, as goroutines on all processors, so that the race detector
// judges what the simulator can't show: it runs one task at a time. It holds tests only.
//
// The servers are the models of package sim. They live in a kernel of their own whose virtual time follows the clock of the
// test; one lock orders whoever enters it (servers_test.go). The clock runs fast, so that every timer of the default
// configuration is a matter of milliseconds and every task goes round often in a few seconds.
//
// The lock of the servers orders their callers, which hides a race between two accesses that always have a call between
// them. Calls are few compared with accesses, and which task calls when differs with each round, so thousands of rounds
// leave little room for that; the mutants of sim/preempt/weave show it.
package stress
