//go:build !linux

package subprocess

// The tests that need a separate worker process, or inspect all processes, read /proc, so they run only on
// Linux.

func workerMain() {}

func isolatedMain() {}

func leftovers() bool { return false }
