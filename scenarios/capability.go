package scenarios

// Capability is what a world can do of one kind of fault.
type Capability struct {
	Kind  FaultKind
	World World
	// Why it can't; empty if it can.
	Why string
}

// Capabilities is the table of what the live world can do. The simulated one can do everything.
func Capabilities() []Capability {
	var all []Capability
	for _, f := range Faults() {
		all = append(all, Capability{f.Kind, Live, f.Kind.Lacks(Live)})
	}
	return all
}

// Lacks says why a world can't do a kind of fault; empty if it can.
func (k FaultKind) Lacks(w World) string {
	if w == Sim {
		return ""
	}
	switch k {
	case Freeze, ClockOffset, ClockStep, ClockDrift:
		return "its processes and servers share one machine and its clocks"
	case CancelConsumers:
		return "RabbitMQ cancels the consumers of a queue only when the queue goes or moves; delete_queue does that"
	default:
		return ""
	}
}

// In says whether a world can do a fault.
func (k FaultKind) In(w World) bool { return k.Lacks(w) == "" }
