//go:build !linux

package subprocess

// The tests that need a worker of their own, or a look at all processes, read /proc.

func workerMain() {}

func isolatedMain() {}

func leftovers() bool { return false }
