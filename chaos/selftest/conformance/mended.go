package conformance

// Mend is a divergence that the suites found, with the name of the case that prevents its return.
type Mend struct {
	Model, What, Case string
}

// Mended lists the fixed divergences of the store's model. Those of the broker's model are in the rules that
// its package comment lists.
func Mended() []Mend {
	return []Mend{
		{Store, "a row that had waited came after one that was due later but filed earlier", "a row that has ripened comes before one that was due later"},
		{Store, "after the clock was set back, a row that was due at once stayed due", "a row is due by the clock of the database, also when that is set back"},
		{Store, "runtimes that nobody demanded came in the order of their first use", "others come in the order of their runtimes' names"},
		{Store, "others with a limit of concurrency came at another place than in PostgreSQL", "others come in that order with a limit of concurrency as without"},
		{Store, "a runtime that was demanded twice was served at two places", "a runtime that is demanded twice is served once, where it stands first, with both limits"},
		{Store, "a search with a negative limit found everything", "a limit of zero or less requests nothing"},
		{Store, "what became urgent at the same moment was found in the order of the call", "rows that became urgent at the same moment are found in the order of their ids"},
		{Store, "overruns and expired claims were found in the order of their starts", "overruns are found by their deadlines, not by their starts"},
		{Store, "moments had nanoseconds", "durations count in whole microseconds"},
		{Store, "the grace of a row that was parked for no time did not begin anew when nobody looked", "a row that was parked for no time and then forgotten starts its grace anew"},
		{Store, "a terminal row could be taken back as not handled yet", "an ended execution is not reclaimed for any cause"},
		{Store, "a take-back was allowed to parts that may not make it", "a take-back that its part may not make is an error"},
		{Store, "an expired scheduling claim could be failed", "an expired scheduling claim is given back and never failed"},
		{Store, "a result that is no end was written", "a result that is no end is an error, and the call's other results count"},
		{Store, "a retry with the number 0 was created", "a retry without a number is an error, and nothing is handled"},
		{Store, "broken JSON and texts were kept", "parameters that are not JSON, and texts that are not UTF-8, are errors of their item"},
		{Store, "actions with negative timeouts were kept", "an action with a negative timeout, number of retries or limit of concurrency is an error of that action"},
		{Store, "a worker of a negative capacity was registered", "a worker of a negative capacity is an error"},
		{Store, "repeating a lifecycle under another worker's id was answered as done", "an incarnation is only its own worker's"},
		{Store, "a refused result without a status was kept", "a refused result without a status is an error"},
		{Store, "PostgreSQL, not the model, numbered the retries of one call by their chains", "the retries of one call are numbered in the order of its items"},
		{Store, "the survey told since when requested executions existed, not since when they were due; PostgreSQL's failed where only children waited", "the survey reports since when executions are due, and only counts children that wait for their parent"},
		{Broker, "x-death had fractions of a second", "rule 18 the times of x-death are whole seconds"},
	}
}
