package scenario

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
