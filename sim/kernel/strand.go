package kernel

// Strand stands for what has led to the present moment, as far as the kernel sees it: the work of
// the current task and of everything that has woken it, or of whoever armed the timer that fires.
// The kernel only hands strands on; Options.Meet says what a strand is. 0 is a strand of which
// nothing is known. Without Options.Meet every strand stays 0, and nothing is kept.
//
// A strand goes from a task to the tasks that it starts and wakes, and to the timers that it arms.
// It doesn't go through memory that tasks share.
type Strand uint32

// Strand returns the strand of the current task, or of the event that fires.
func (k *Kernel) Strand() Strand { return k.strand }

// SetStrand replaces the current strand. Models use it to go back to where several things have
// begun that don't depend on one another.
func (k *Kernel) SetStrand(s Strand) { k.strand = s }

// Meet adds another strand to the current one: from here on, both have led to what happens.
func (k *Kernel) Meet(s Strand) { k.strand = k.meet(k.strand, s) }

// Met returns the strand of a moment to which two strands have led.
func (k *Kernel) Met(a, b Strand) Strand { return k.meet(a, b) }

func (k *Kernel) meet(a, b Strand) Strand {
	if a == b || k.opts.Meet == nil {
		return a
	}
	return k.opts.Meet(a, b)
}
