package docs

import (
	"bytes"
	"go/ast"
	"go/printer"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// limit is a number that no key changes: a constant of the code.
type limit struct{ directory, name, what string }

func limits() []limit {
	return []limit{
		{"core/execution", "DefaultTimeout", "run timeout of an action that names none"},
		{"core/execution", "KeyLifetime", "how long an idempotency key belongs to its execution"},
		{"core/config", "MaxActionRetries", "largest `max_retries` of an action"},
		{"core/config", "MaxActionConcurrency", "largest `concurrency` of an action"},
		{"core/api", "maxBody", "body of a request, bytes"},
		{"core/api", "maxBatchBody", "body of a batch, bytes"},
		{"core/api", "maxMistakes", "mistakes that one answer lists, at which reading ends"},
		{"core/api", "maxPage", "page of a list, bytes"},
		{"core/api", "maxCompared", "parameters that one request compares by meaning, bytes"},
		{"core/api", "placesOfLists", "lists at once"},
		{"core/api", "placesOfLarge", "requests with large bodies at once"},
		{"core/api", "placesOfReads", "single rows read at once"},
		{"core/api", "placesOfWrites", "other writes at once"},
		{"core/api", "placeWait", "how long a request waits for a place"},
		{"core/config", "LeastAPIConnections", "connections of the API to the database, at least"},
		{"core/config", "ResultWindow", "how long the result of a run may wait for others, to be written with them"},
		{"core/config", "LongestPing", "how long an idle connection to the database may be silent, at most"},
		{"core/api", "maxStreams", "streams of changes at once"},
		{"core/api", "maxStreamsOfClient", "streams of changes of one client address"},
		{"core/api", "streamWrite", "how long a client of a stream may take to accept what is sent"},
		{"core/api", "maxBatchItems", "items of a batch"},
		{"core/api", "submitTimeout", "how long a request waits for a database that is away"},
		{"core/broker", "MaxBody", "body of a message, bytes"},
		{"core/broker", "cancelTTL", "TTL of the queues of cancellations"},
		{"core/broker", "notifyBatch", "executions in one hint"},
		{"core/broker", "notifyAttempts", "attempts to send a hint"},
		{"core/broker", "notifyPending", "hints that wait; then the oldest are dropped"},
		{"core/broker/rabbitmq", "DefaultWindow", "publishes without an outcome of one route"},
		{"core/broker/rabbitmq", "DefaultOldestConfirm", "how long a publish may wait for its confirm before the session ends"},
		{"core/broker/rabbitmq", "stuckAfter", "how long a publish waits for a queue that does not confirm while others do"},
		{"core/broker", "notifyTimeout", "how long one attempt to send hints may take"},
		{"core/worker", "longestHeld", "how long a delivery may wait for a run slot, whatever its dispatch timeout is"},
		{"core/broker", "canaryTTL", "TTL of the canary"},
		{"core/broker", "CanaryWait", "how long the canary may take"},
		{"core/broker", "DeclareWait", "how long the declaration of a process's queues may take"},
		{"core/executor", "canaryInterval", "time between two canaries"},
		{"core/executor", "hintPrefetch", "prefetch of the hint queues"},
		{"core/executor", "deadLetterPrefetch", "prefetch of the dead letter queue"},
		{"core/executor", "passBatches", "batches of one pass"},
		{"core/executor", "longestUnmarked", "how long a confirmed dispatch waits to be marked, at most; also at most a quarter of `executor.confirm_timeout` and of `executor.scheduled_timeout`"},
		{"core/executor", "unreachableAfter", "failed probes after which a worker is chosen later"},
		{"core/executor", "probeTimeout", "how long a probe may take"},
		{"core/executor", "mostDoublings", "how much take-backs that do not count add to the backoff"},
		{"core/executor", "slotSweep", "period of the reconciler of slots"},
		{"core/executor", "keySweep", "period of the reconciler of idempotency keys"},
		{"core/executor", "idleQueueSweep", "period of the reconciler of idle queues"},
		{"core/executor", "purgeInterval", "period of the purge of dead letters"},
		{"core/worker", "cancelPrefetch", "prefetch of a worker's cancellations"},
		{"core/worker/subprocess", "DefaultOutputLimit", "bytes kept of each output stream"},
		{"core/worker/subprocess", "maxVariable", "longest `HANDOFF_PARAMETERS`, bytes"},
		{"core/worker/subprocess", "messageLimit", "longest message of a failure, bytes"},
		{"cmd/executor", "drainRequests", "how long a stop waits for requests under way"},
	}
}

// units make a constant's expression readable.
var units = []struct {
	expression *regexp.Regexp
	unit       string
}{
	{regexp.MustCompile(`^(\d+) \* time\.Millisecond$`), "$1 ms"},
	{regexp.MustCompile(`^(\d+) \* time\.Second$`), "$1 s"},
	{regexp.MustCompile(`^(\d+) \* time\.Minute$`), "$1 min"},
	{regexp.MustCompile(`^(\d+) \* time\.Hour$`), "$1 h"},
	{regexp.MustCompile(`^time\.Minute$`), "1 min"},
	{regexp.MustCompile(`^time\.Second$`), "1 s"},
	{regexp.MustCompile(`^(\d+) << 10$`), "$1 Ki"},
	{regexp.MustCompile(`^(\d+) << 20$`), "$1 Mi"},
	{regexp.MustCompile(`^(\d+)_(\d{3})$`), "$1,$2"},
}

func limitsTable(t *testing.T) string {
	var rows [][]string
	for _, l := range limits() {
		value := constant(t, l.directory, l.name)
		for _, u := range units {
			value = u.expression.ReplaceAllString(value, u.unit)
		}
		rows = append(rows, []string{l.what, value, code(l.directory + "." + l.name)})
	}
	return markdown([]string{"What", "value", "constant"}, rows)
}

// constant is the expression of a constant as it stands in the code.
func constant(t *testing.T, directory, name string) (value string) {
	t.Helper()
	for _, f := range parseGo(t, directory) {
		if f.Name.Name != directory[strings.LastIndexByte(directory, '/')+1:] && f.Name.Name != "main" {
			continue // a package below
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, n := range spec.Names {
				if n.Name == name && i < len(spec.Values) {
					var b bytes.Buffer
					if err := printer.Fprint(&b, token.NewFileSet(), spec.Values[i]); err != nil {
						t.Fatal(err)
					}
					value = b.String()
				}
			}
			return true
		})
	}
	if value == "" {
		t.Errorf("%s has no constant %s any more", directory, name)
	}
	return value
}
