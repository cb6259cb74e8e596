//go:build !linux

package subprocess

// The tests that need a separate worker process, or look at all processes, read /proc.

func workerMain() {}

func isolatedMain() {}

func leftovers() bool { return false }
