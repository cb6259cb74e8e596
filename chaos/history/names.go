package history

import "fmt"

var kindNames = [...]string{ //detlint:ok a constant table, never written
	NoKind:           "",
	ProcessStarted:   "process_started",
	ProcessCrashed:   "process_crashed",
	ProcessStopping:  "process_stopping",
	ProcessStopped:   "process_stopped",
	ProcessPaused:    "process_paused",
	ProcessResumed:   "process_resumed",
	ProcessFrozen:    "process_frozen",
	ProcessThawed:    "process_thawed",
	FaultBegan:       "fault_began",
	FaultEnded:       "fault_ended",
	FaultTouched:     "fault_touched",
	ActionDefined:    "action_defined",
	Created:          "created",
	KeyKnown:         "key_known",
	ChildStarted:     "child_started",
	CancelRequested:  "cancel_requested",
	SlotTaken:        "slot_taken",
	SlotFreed:        "slot_freed",
	Transition:       "transition",
	StaleWrite:       "stale_write",
	Orchestrated:     "orchestrated",
	PublishedMarked:  "published_marked",
	RefusedResult:    "refused_result",
	DeadLetterStored: "dead_letter_stored",
	Observed:         "observed",
	WorkerRegistered: "worker_registered",
	WorkerLifecycle:  "worker_lifecycle",
	HeartbeatRenewed: "heartbeat_renewed",
	HealthReported:   "health_reported",
	WorkerCordoned:   "worker_cordoned",
	Published:        "published",
	PublishReturned:  "publish_returned",
	Enqueued:         "enqueued",
	Delivered:        "delivered",
	Acked:            "acked",
	Requeued:         "requeued",
	Expired:          "expired",
	Rejected:         "rejected",
	DeadLettered:     "dead_lettered",
	Dropped:          "dropped",
	ActionStarted:    "action_started",
	ActionEnded:      "action_ended",
	DatabaseDown:     "database_down",
	DatabaseUp:       "database_up",
	BrokerDown:       "broker_down",
	BrokerUp:         "broker_up",
	ClockStepped:     "clock_stepped",
	AlertFired:       "alert_fired",
	AlertResolved:    "alert_resolved",
	Logged:           "logged",
	Quiescent:        "quiescent",
	MutantActed:      "mutant_acted",
	EndAsked:         "end_asked",
	ToldGone:         "told_gone",
	Hinted:           "hinted",
	ConsumerTimedOut: "consumer_timed_out",
	ReturnedTooOften: "returned_too_often",
	DatabaseRewound:  "database_rewound",
	RowUnreadable:    "row_unreadable",
	Purged:           "purged",
	WorkerPurged:     "worker_purged",
	RowLocked:        "row_locked",
}

// String returns the kind's name in recorded histories, or "" for NoKind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// ParseKind is the inverse of String. NoKind's empty name is unknown, because every recorded event
// has a kind.
func ParseKind(name string) (Kind, error) {
	for k := NoKind + 1; k < kinds; k++ {
		if k.String() == name {
			return k, nil
		}
	}
	return NoKind, fmt.Errorf("unknown kind of event %q", name)
}
