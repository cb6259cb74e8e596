//go:build !linux

package subprocess

// Tests that need a separate worker process, or inspect all processes, read /proc: they need Linux.

func workerMain() {}

func isolatedMain() {}

func leftovers() bool { return false }
