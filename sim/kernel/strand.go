package kernel

// Strand is a number that follows cause and effect through a run. It stands for everything that led to the
// current step: the work of the current task and of all tasks that woke it, or of the task that armed the
// timer. An observer defines the meaning of the numbers: it sets the current strand (SetStrand) and joins two
// strands (Options.Meet). The kernel only passes them on. 0 means unknown. Without an observer, every strand
// stays 0.
//
// A strand passes from a task to the tasks that it starts and wakes, and to the timers that it arms. It
// does not pass through memory that tasks share.
type Strand uint32

// Strand returns the strand of the current task, or of the event that fires.
func (k *Kernel) Strand() Strand { return k.strand }

// SetStrand replaces the current strand. A model that performs several independent actions in a row resets
// the strand before each action, so that one does not count as a cause of the next.
func (k *Kernel) SetStrand(s Strand) { k.strand = s }

// Meet joins another strand to the current strand: from now on, both have led to what happens.
func (k *Kernel) Meet(s Strand) { k.strand = k.joinStrands(k.strand, s) }

// Met returns the join of two strands and leaves the current strand unchanged.
func (k *Kernel) Met(a, b Strand) Strand { return k.joinStrands(a, b) }

func (k *Kernel) joinStrands(a, b Strand) Strand {
	if a == b || k.opts.Meet == nil {
		return a
	}
	return k.opts.Meet(a, b)
}
