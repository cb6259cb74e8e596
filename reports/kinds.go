package reports

import "handoff/chaos/history"

// kindRow holds the sentence, style and track of one kind of event.
type kindRow struct {
	// who and what are the templates, over a clause, for the subject and the predicate of an event's
	// sentence. If who is empty, the subject is the process.
	who, what string
	// class is the style on the page; empty for the style of messages.
	class string
	// home is the track of its events: a server's, the run's or the affected worker's; empty for the track of
	// the event's process.
	home string
	// state is the new state of the process or the server; empty if unchanged.
	state string
	// flow reports whether a trace connects the event with the other events of its message.
	flow bool
}

// isServer reports whether events of the kind change a server's state.
func (k *kindRow) isServer() bool { return k.home != "" && k.state != "" }

// Names of the tracks that don't belong to a process, and of the worker's track.
const (
	homeRun      = "run"
	homeDatabase = "database"
	homeBroker   = "broker"
	homeWorker   = "worker"
)

// Styles of events on the page.
const (
	ofProcess = "process"
	ofFault   = "fault"
	ofStatus  = "status"
	ofWorker  = "worker"
	ofAction  = "action"
	ofLog     = "log"
	ofMessage = "message"
)

// Subjects of several kinds.
const (
	byAPI      = "{{.Actor `the API`}}"
	byExecutor = "{{.Actor `the executor`}}"
	byDatabase = "the database"
	byBroker   = "the broker"
)

// poison names a message that makes the broker stop dead lettering.
const poison = ", and its header breaks dead lettering: the broker creates no queue until it restarts without that message"

var kindRows = [history.Kinds]kindRow{ //nolint:gochecknoglobals // a constant table
	history.NoKind: {what: "did something unknown: {{.Kind}}"},

	history.ProcessStarted:  {class: ofProcess, state: "up", what: "started"},
	history.ProcessCrashed:  {class: ofProcess, state: "down", what: "crashed"},
	history.ProcessStopping: {what: "was asked to stop"},
	history.ProcessStopped:  {class: ofProcess, state: "stopped", what: "stopped by itself"},
	history.ProcessPaused:   {class: ofProcess, state: "paused", what: "was paused: it does nothing, but its clocks and its actions go on"},
	history.ProcessResumed:  {class: ofProcess, state: "up", what: "goes on after its pause"},
	history.ProcessFrozen:   {class: ofProcess, state: "frozen", what: "was frozen with its whole machine, clocks and actions too"},
	history.ProcessThawed:   {class: ofProcess, state: "up", what: "was thawed"},

	history.FaultBegan:   {class: ofFault, home: homeRun, who: "the fault “{{.Fault}}”", what: "began{{with .Process}} for {{.}}{{end}}"},
	history.FaultEnded:   {class: ofFault, home: homeRun, who: "the fault “{{.Fault}}”", what: "ended{{with .Process}} for {{.}}{{end}}"},
	history.FaultTouched: {class: ofFault, home: homeRun, who: "the fault “{{.Fault}}”", what: "made a difference{{.Touched}}"},

	history.ActionDefined: {
		class: ofStatus, who: byAPI, what: "defined the action {{.Action}}{{with .Count}}, with a limit of {{.}} executions at a time{{end}}",
	},
	history.Created: {
		class: ofStatus, who: "{{.Author}}", what: "created execution {{.Execution}}{{if or (gt .Count 0) (and .Chain (ne .Chain .Execution))}} as retry {{.Count}} of execution {{.Chain}}{{end}}" +
			"{{with .Related}} as a child of execution {{.}}{{end}}{{.Because}}{{if gt .Due 0}}, due at {{.Moment}}{{end}}: {{.To}}",
	},
	history.KeyKnown:        {class: ofStatus, who: byAPI, what: "answered a request under the idempotency key {{printf `%q` .Key}} with execution {{.Execution}}, created {{.Due}} before"},
	history.ChildStarted:    {class: ofStatus, who: byExecutor, what: "let execution {{.Execution}} begin: its parent, execution {{.Related}}, has completed"},
	history.CancelRequested: {class: ofStatus, who: byAPI, what: "filed a request to cancel the chain of execution {{.Chain}}, whose last one is execution {{.Execution}} ({{.From}})"},
	history.SlotTaken:       {class: ofStatus, who: byExecutor, what: "gave slot {{.Count}} of {{.Action}} to execution {{.Execution}}"},
	history.SlotFreed:       {class: ofStatus, who: byExecutor, what: "took slot {{.Count}} of {{.Action}} back from execution {{.Execution}}"},
	history.Transition:      {class: ofStatus, who: "{{.Author}}", what: "{{.Change}}"},
	history.StaleWrite:      {class: ofStatus, who: "{{.Author}}", what: "tried to {{.Write}} execution {{.Execution}} at epoch {{.Epoch}} and was refused: its epoch or status has changed since"},
	history.Orchestrated:    {class: ofStatus, who: byExecutor, what: "finished the handling of execution {{.Execution}} ({{.From}}){{with .Related}}: its retry is execution {{.}}{{end}}"},
	history.PublishedMarked: {class: ofStatus, who: byExecutor, what: "noted that the dispatch of execution {{.Execution}} at epoch {{.Epoch}} is published"},
	history.RefusedResult: {
		class: ofStatus, home: homeDatabase, who: byDatabase,
		what: "refused the result {{.To}} of execution {{.Execution}} from epoch {{.Epoch}} (incarnation {{.Incarnation}}), which does not own it",
	},
	history.DeadLetterStored: {class: ofStatus, who: "the dead letter handler{{with .Process}} of {{.}}{{end}}", what: "stored the dead letter of execution {{.Execution}} at epoch {{.Epoch}}{{.Because}}"},
	history.Observed: {
		class: ofStatus, who: "{{if .Execution}}the {{.By}}{{else}}the health prober{{end}}{{with .Process}} of {{.}}{{end}}",
		what: "observes only: {{if .Execution}}it would mark execution {{.Execution}} at epoch {{.Epoch}} {{.To}}{{.Because}}" +
			"{{else if gt .Count 0}}it would avoid {{.Owner}}, which does not answer that it is ready{{else}}{{.Owner}} answers that it is ready again{{end}}",
	},

	history.WorkerRegistered: {class: ofWorker, home: homeWorker, who: "{{.Owner}}", what: "registered"},
	history.WorkerLifecycle:  {class: ofWorker, home: homeWorker, who: "{{.Owner}}", what: "{{if eq .Lifecycle.String `lost`}}was declared lost{{else}}became {{.Lifecycle}}{{end}}"},
	history.HeartbeatRenewed: {class: ofWorker, home: homeWorker, who: "{{.Owner}}", what: "renewed its lease by heartbeat {{.Count}} until {{.Moment}} of the database's clock"},
	history.HealthReported: {
		class: ofWorker, home: homeWorker, who: "{{.Owner}}",
		what: "reported that {{.Limit}} of its last {{.Message}} runs failed by its own fault, the last {{.Count}} in a row",
	},
	history.WorkerCordoned: {
		class: ofWorker, home: homeWorker, who: "{{.Owner}}",
		what: "{{if .Count}}gets no new work: an operator cordoned it{{else}}may get new work again: an operator lifted its cordon{{end}}",
	},

	history.Published:       {flow: true, what: "published {{.Letter}} to {{.Many `queue`}}"},
	history.PublishReturned: {what: "published {{.Letter}}, but no queue takes it: it was returned"},
	history.Enqueued:        {home: homeBroker, who: "{{.QueueName}}", what: "stored {{.Letter}}"},
	history.Delivered:       {flow: true, what: "received {{.Letter}} from {{.QueueName}}"},
	history.Acked:           {flow: true, what: "acknowledged {{.Letter}}"},
	history.Requeued:        {home: homeBroker, who: "{{.QueueName}}", what: "took back {{.Letter}}"},
	history.Expired:         {flow: true, home: homeBroker, who: "{{.Letter}}", what: "expired in {{.QueueName}}{{with .Count}}" + poison + "{{end}}"},
	history.Rejected:        {flow: true, home: homeBroker, who: "{{.Letter}}", what: "was rejected in {{.QueueName}}{{with .Count}}" + poison + "{{end}}"},
	history.DeadLettered:    {home: homeBroker, who: "{{.Letter}}", what: "went from {{.QueueName}} to {{.Many `dead letter queue`}}"},
	history.Dropped:         {flow: true, home: homeBroker, who: "{{.Letter}}", what: "was {{if .Fault}}lost in {{.QueueName}} by the fault “{{.Fault}}”{{else}}dropped by the broker's rules in {{.QueueName}}{{end}}"},

	history.ActionStarted: {class: ofAction, who: "{{.Owner}}", what: "started the action of execution {{.Execution}} at epoch {{.Epoch}}"},
	history.ActionEnded:   {class: ofAction, who: "{{.Owner}}", what: "ended the action of execution {{.Execution}} at epoch {{.Epoch}}: {{.To}}{{.Because}}"},

	history.DatabaseDown: {class: ofProcess, home: homeDatabase, state: "down", who: byDatabase, what: "went down"},
	history.DatabaseUp:   {class: ofProcess, home: homeDatabase, state: "up", who: byDatabase, what: "is up again"},
	history.BrokerDown:   {class: ofProcess, home: homeBroker, state: "down", who: byBroker, what: "went down"},
	history.BrokerUp:     {class: ofProcess, home: homeBroker, state: "up", who: byBroker, what: "is up again"},

	history.ClockStepped: {home: homeDatabase, who: byDatabase, what: "had its clock moved by {{.Due}}"},

	history.AlertFired:    {home: homeRun, who: "the alert {{.Fault}}", what: "fired"},
	history.AlertResolved: {home: homeRun, who: "the alert {{.Fault}}", what: "was resolved"},

	history.Logged:      {class: ofLog, what: "logged: {{.Log}}"},
	history.Quiescent:   {class: ofLog, home: homeRun, who: "everything accepted", what: "is finished and every queue is empty"},
	history.MutantActed: {who: "the mutant{{with .Actor ``}} in {{.}}{{end}}", what: "acted{{with .Execution}} on execution {{.}}{{end}}: {{.Text}}"},
	history.EndAsked:    {who: "{{.Owner}}", what: "asked the action of execution {{.Execution}} at epoch {{.Epoch}} to end within {{.Due}}"},
	history.ToldGone:    {who: "{{.Owner}}", what: "was told that {{if .Count}}another process has taken its name{{else}}it was declared lost{{end}}"},
	history.Hinted:      {what: "told in {{.Key}} that execution {{.Execution}}, epoch {{.Epoch}}, is {{.To}}{{if lt .Count 0}}, and the broker refused it{{end}}"},
	history.ConsumerTimedOut: {
		what: "kept {{.Letter}} from {{.QueueName}} unacknowledged for {{.Due}}, and " +
			"{{if .Count}}the queue took it back and cancelled its consumer{{else}}the broker ended its session{{end}}",
	},
	history.ReturnedTooOften: {flow: true, home: homeBroker, who: "{{.Letter}}", what: "was given up in {{.QueueName}}, where it came back too often{{with .Count}}" + poison + "{{end}}"},
	history.DatabaseRewound: {
		home: homeDatabase, who: byDatabase, what: "has lost everything since {{.Due}}: a replica that had stopped following then has taken over",
	},
	history.RowUnreadable: {
		home: homeDatabase, who: byDatabase,
		what: "has a {{if .Count}}row of execution {{.Execution}} that only a newer program can read{{else}}readable row of execution {{.Execution}} again{{end}}",
	},
	history.Purged: {who: byExecutor, what: "deleted the chain of execution {{.Execution}} ({{.Many `row`}}), as it had ended at least {{.Due}} ago"},
	history.WorkerPurged: {
		who:  byExecutor,
		what: "deleted {{.Owner}}{{if .Count}} and the name with it{{end}}, as its lease had ended at least {{.Due}} ago",
	},
	history.RowLocked: {
		home: homeDatabase, who: byDatabase, what: "has {{if .Count}}locked the row of execution {{.Execution}} for another program" +
			"{{else}}released the lock of another program on the row of execution {{.Execution}}{{end}}",
	},
}

// rowOf returns the row of a kind, or the row of NoKind for an unknown one.
func rowOf(k history.Kind) *kindRow {
	if int(k) >= len(kindRows) {
		k = history.NoKind
	}
	return &kindRows[k]
}
