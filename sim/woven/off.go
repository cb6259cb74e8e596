//go:build !preempt

package woven

import "handoff/sim/kernel"

// Built reports whether this program's core is woven, so that runs are preempted.
const Built = false

// Program is the name of this program in the commands that it prints.
const Program = "chaos"

// Begin does nothing in a build without the tag preempt.
func Begin(*kernel.Kernel) (end func()) { return func() {} }
