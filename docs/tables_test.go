package docs

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

// reasons are all failure reasons, in the order of the code.
func reasons(t *testing.T) (all []execution.Reason) {
	t.Helper()
	for _, name := range execution.Reasons() {
		r, err := execution.ParseReason(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func reasonsTable(t *testing.T) string {
	meaning := reasonMeanings()
	var rows [][]string
	for _, r := range reasons(t) {
		if meaning[r] == "" {
			t.Errorf("the reason %v has no explanation; add it to reasonMeanings", r)
		}
		rows = append(rows, []string{code(r.String()), yes(r.Retriable()), yes(r.BlamesWorker()), yes(r.OfAction()), meaning[r]})
	}
	return markdown([]string{"Reason", "retriable", "blames the worker", "by an action", "when"}, rows)
}

func reasonMeanings() map[execution.Reason]string {
	return map[execution.Reason]string{
		execution.WorkerUnavailable: "the worker went away before it claimed, refused the message, or could not start the action",
		execution.NoWorkers:         "no worker fitted for `executor.unschedulable_grace`",
		execution.QueueTimeout:      "the message expired in the worker's queue",
		execution.DispatchTimeout:   "it was not claimed in time",
		execution.Unroutable:        "no queue was bound to the worker's key",
		execution.WorkerLost:        "the worker's lease ended while it ran, or the worker does not run what it claimed",
		execution.WorkerShutdown:    "the worker stopped, and `worker.shutdown_timeout` was over, or the signal that stopped it ended the run, too",
		execution.HeartbeatStale:    "the worker could not renew its lease and ended the action itself",
		execution.RunTimeout:        "the action's `timeout_seconds` were over",
		execution.Transient:         "the action says so",
		execution.Connection:        "the action says so: what it calls was not reached",
		execution.Validation:        "the action says so, or the action itself makes no sense",
		execution.Permission:        "the action says so, or its script can't be read",
		execution.ActionNotFound:    "its script is not there",
		execution.InvalidParameters: "the action says so",
		execution.Rejected:          "the action says so: what it calls refused",
		execution.CancelRequested:   "somebody cancelled it",
		execution.ParentFailed:      "its parent did not complete: it was skipped",
		execution.Unknown:           "the action failed and did not say why",
	}
}

func backoffTable(*testing.T) string {
	retry := config.Default(config.Hardened).Retry
	var rows [][]string
	for n := 0; n <= 9; n++ {
		low, high := retry.BackoffBounds(n)
		middle := retry.Backoff(n, func(n uint64) uint64 { return n / 2 })
		rows = append(rows, []string{strconv.Itoa(n + 1), strconv.Itoa(n), seconds(middle), seconds(low), seconds(high)})
	}
	return markdown([]string{"Retry", "n", "about", "at least", "at most"}, rows)
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) + " s"
}

func healthTable(t *testing.T) string {
	h := config.Default(config.Hardened).Health
	if h != config.Default(config.Documented).Health {
		t.Error("the profiles differ in their health thresholds, and the page has one table")
	}
	percent := func(f float64) string { return fmt.Sprintf("%v %%", math.Round(f*100)) }
	return markdown([]string{"Figure", "degraded from", "unhealthy from", "keys"}, [][]string{
		{"consecutive failures", strconv.Itoa(h.DegradedThreshold), strconv.Itoa(h.UnhealthyThreshold), "`health.degraded_threshold`, `health.unhealthy_threshold`"},
		{"dispatches that wait at it", strconv.Itoa(h.QueueDepthDegraded), strconv.Itoa(h.QueueDepthUnhealthy), "`health.queue_depth_degraded`, `health.queue_depth_unhealthy`"},
		{
			fmt.Sprintf("failed runs of the last %s, from %d runs on", yamlfile.Short(h.Window), h.MinSamples), percent(h.FailureRateDegraded), percent(h.FailureRateUnhealthy),
			"`health.failure_rate_degraded`, `health.failure_rate_unhealthy`, `health.window`, `health.min_samples`",
		},
	})
}

// The table of thresholds says what the code does at the thresholds and just below them.
func TestHealthChangesAtTheThresholdsOfThePage(t *testing.T) {
	h := config.Default(config.Hardened).Health
	for _, c := range []struct {
		figures execution.Figures
		queued  int
		want    execution.Health
	}{
		{execution.Figures{Consecutive: 2}, 0, execution.Healthy},
		{execution.Figures{Consecutive: 3}, 0, execution.Degraded},
		{execution.Figures{Consecutive: 10}, 0, execution.Unhealthy},
		{execution.Figures{}, 49, execution.Healthy},
		{execution.Figures{}, 50, execution.Degraded},
		{execution.Figures{}, 100, execution.Unhealthy},
		{execution.Figures{Total: 19, Failed: 19}, 0, execution.Healthy},
		{execution.Figures{Total: 20, Failed: 6}, 0, execution.Degraded},
		{execution.Figures{Total: 20, Failed: 14}, 0, execution.Unhealthy},
	} {
		if got := h.Of(c.figures, c.queued); got != c.want {
			t.Errorf("%+v with %d queued is %v, the page says %v", c.figures, c.queued, got, c.want)
		}
	}
}

// The queues page says what becomes of every reason of x-death, and of every type of message.
func TestTheQueuesPageListsDeathsAndMessages(t *testing.T) {
	p := readPage(t, "docs/queues.md")
	var deaths []string
	for r := broker.DeathExpired; r <= broker.DeathDeliveryLimit; r++ {
		deaths = append(deaths, r.String())
	}
	same(t, "reasons of x-death", p.tableOf(t, "x-death reason").column(0), deaths)
	var types []string
	for m := broker.ExecutionRequested; int(m) < broker.Types; m++ {
		types = append(types, m.String())
	}
	b := p.tableOf(t, "Type", "key")
	same(t, "types of messages", b.column(0), types)
	b.rows = slices.DeleteFunc(b.rows, func(row []string) bool { return row[0] == broker.DeadLetterCanary.String() })
	keys := []string{
		broker.KeyRequested, broker.KeyStatusChanged, broker.KeyCompleted,
		strings.ReplaceAll(broker.DispatchKey(someWorker), fmt.Sprint(int64(someWorker)), "{id}"),
		strings.ReplaceAll(broker.CancelKey(someWorker), fmt.Sprint(int64(someWorker)), "{id}"),
	}
	same(t, "routing keys", b.column(1), keys)
	said := literals(parseGo(t, "core"))
	for _, row := range p.tableOf(t, "x-death reason").rows {
		if !slices.Contains(said, row[3]) {
			t.Errorf("no code leaves the text %q", row[3])
		}
	}
}

// same compares lists without their order.
func same(t *testing.T, what string, have, want []string) {
	t.Helper()
	a, b := slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))
	if !slices.Equal(a, b) {
		t.Errorf("%s: the page has %q, the code %q", what, a, b)
	}
}

// The quick reference of queues has the numbers of both profiles.
func TestTheQuickReferenceHasTheNumbersOfBothProfiles(t *testing.T) {
	hardened, documented := map[string]string{}, map[string]string{}
	for _, s := range settings(t, effective(profileFlag(config.Hardened))) {
		hardened[s.key] = s.value
	}
	for _, s := range settings(t, effective(profileFlag(config.Documented))) {
		documented[s.key] = s.value
	}
	p := readPage(t, "docs/quickref-queues.md")
	for _, row := range p.tableOf(t, "number").rows {
		key, _, _ := strings.Cut(row[3], ",")
		for i, values := range []map[string]string{hardened, documented} {
			if got, want := strings.ReplaceAll(row[1+i], "min", "m"), values[key]; amount(t, got, key) != amount(t, want, key) {
				t.Errorf("%s: the page says %s, the default is %s", key, row[1+i], want)
			}
		}
	}
}

var wholeNumber = regexp.MustCompile(`^\d+$`)

// amount is a number, or a duration in milliseconds.
func amount(t *testing.T, text, key string) int64 {
	t.Helper()
	text = strings.ReplaceAll(text, " ", "")
	if wholeNumber.MatchString(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return d.Milliseconds()
}

// The objects of the schema that the pages name are those that the migrations make.
func TestDatabaseObjectsOfTheQuickReferenceExist(t *testing.T) {
	made := map[string]bool{}
	for _, m := range regexp.MustCompile(`create (?:or replace )?(?:view|function|table) (?:if not exists )?(\w+)`).FindAllStringSubmatch(upSQL(t), -1) {
		made[m[1]] = true
	}
	p := readPage(t, "docs/quickref-retries-and-health.md")
	for _, row := range p.tableOf(t, "object").rows {
		name := regexp.MustCompile(`^(?:view |table )?(\w+)`).FindStringSubmatch(row[0])[1]
		if !made[name] {
			t.Errorf("the page names %s; the migrations make %v", name, slices.Sorted(maps.Keys(made)))
		}
	}
}
