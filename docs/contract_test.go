package docs

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	"handoff/core/execution"
)

var update = flag.Bool("update", false, "write the generated parts of the pages")

// generators write what stands on a page between <!-- generated: NAME --> and <!-- /generated -->.
func generators(t *testing.T) map[string]func(t *testing.T) string {
	all := map[string]func(t *testing.T) string{
		"alerts":                           alertsTable,
		"api":                              apiTable,
		"backoff":                          backoffTable,
		"columns":                          columnsTable,
		"config":                           configTable,
		"figures":                          figuresTable,
		"health":                           healthTable,
		"limits":                           limitsTable,
		"reasons":                          reasonsTable,
		"topology":                         topologyTable,
		"message execution.scheduled":      func(t *testing.T) string { return message(t, scheduledEnvelope()) },
		"message of several dispatches":    func(t *testing.T) string { return message(t, blockEnvelope()) },
		"message execution.status_changed": func(t *testing.T) string { return message(t, changedEnvelope()) },
	}
	maps.Copy(all, scenarioGenerators(t))
	maps.Copy(all, sourceGenerators(t))
	numbers, of := defectsOfTheCode(t)
	for _, number := range numbers {
		all["shown by "+number] = shownBy(of[number])
	}
	return all
}

var generated = regexp.MustCompile(`(?s)(<!-- generated: ([^>]*?) -->\n)(.*?)(<!-- /generated -->)`)

// The tables of the pages that follow from the code say what the code says. After a change of the code:
//
//	go test ./docs -run TestContract -update
func TestContract(t *testing.T) {
	known, used := generators(t), map[string]bool{}
	for _, p := range readPages(t) {
		want := generated.ReplaceAllStringFunc(string(p.source), func(block string) string {
			m := generated.FindStringSubmatch(block)
			generate := known[m[2]]
			if generate == nil {
				t.Errorf("%s: nothing generates %q; there are %q", p.path, m[2], slices.Sorted(maps.Keys(known)))
				return block
			}
			used[m[2]] = true
			return m[1] + "\n" + strings.TrimSpace(generate(t)) + "\n\n" + m[4]
		})
		if want == string(p.source) {
			continue
		}
		if *update {
			if err := os.WriteFile(filepath.Join(root, p.path), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("%s does not say what the code says: go test ./docs -run TestContract -update\n%s", p.path, firstDifference(string(p.source), want))
	}
	for name := range known {
		if !used[name] {
			t.Errorf("%q is generated, and no page has it", name)
		}
	}
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(have, want string) string {
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n  have %s\n  want %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}

// markdown is a table.
func markdown(header []string, rows [][]string) string {
	var b strings.Builder
	write := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + strings.ReplaceAll(c, "|", `\|`) + " |")
		}
		b.WriteString("\n")
	}
	write(header)
	b.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, r := range rows {
		write(r)
	}
	return b.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// someWorker is a number that no name holds by chance.
const someWorker execution.WorkerID = 987654321

func topologyTable(t *testing.T) string {
	name := func(s string) string { return code(strings.ReplaceAll(s, fmt.Sprint(int64(someWorker)), "{id}")) }
	q := config.Default(config.Hardened).MessageQueue.RabbitMQ
	all := broker.ExecutorTopology(q)
	own := broker.WorkerTopology(q, someWorker)
	var exchanges [][]string
	for _, e := range all.Exchanges {
		exchanges = append(exchanges, []string{code(e.Name), string(e.Kind)})
	}
	for _, e := range own.Exchanges {
		if !slices.Contains(all.Exchanges, e) {
			t.Errorf("workers declare the exchange %s, executors do not", e.Name)
		}
	}
	var queues [][]string
	seen := map[string]bool{}
	for _, declared := range []broker.Topology{all, own} {
		for _, queue := range declared.Queues {
			if seen[queue.Name] {
				continue
			}
			seen[queue.Name] = true
			row := []string{name(queue.Name), ""}
			for _, b := range declared.Bindings {
				if b.Queue == queue.Name {
					row[1] = code(b.Exchange) + " " + name(b.Pattern)
				}
			}
			for _, kind := range []string{"quorum", "classic"} {
				queue.Type = kind
				row = append(row, arguments(t, queue))
			}
			queues = append(queues, row)
		}
	}
	return markdown([]string{"Exchange", "kind"}, exchanges) + "\n" +
		markdown([]string{"Queue", "bound to", "arguments (quorum)", "arguments (classic)"}, queues)
}

// arguments are those with which a queue is declared, without the type.
func arguments(t *testing.T, q broker.Queue) string {
	t.Helper()
	table, err := rabbitmq.QueueArguments(q)
	if err != nil {
		t.Fatal(err)
	}
	if table["x-queue-type"] != q.Type {
		t.Errorf("queue %s of type %s is declared as %v", q.Name, q.Type, table["x-queue-type"])
	}
	var list []string
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if key != "x-queue-type" {
			list = append(list, code(fmt.Sprintf("%s: %v", key, table[key])))
		}
	}
	return strings.Join(list, ", ")
}

func scheduledEnvelope() broker.Envelope {
	key := execution.Key{ID: 42, Epoch: 3}
	return broker.Envelope{
		MessageID: "42.3", Type: broker.ExecutionScheduled, CorrelationID: "42",
		Timestamp: time.Date(2026, 2, 9, 12, 0, 0, 0, time.UTC), Version: broker.WireVersion,
		Dispatches: []broker.Dispatch{{
			Key: key, Worker: 7, Incarnation: 19,
			Action: execution.Action{
				Ref: "core.echo", Runtime: "shell", Entrypoint: "echo.sh", Timeout: 30 * time.Second, DispatchTimeout: time.Minute, MaxRetries: 2,
			},
			Parameters: []byte(`{"message":"hello"}`),
		}},
	}
}

func blockEnvelope() broker.Envelope {
	e := scheduledEnvelope()
	e.MessageID, e.CorrelationID, e.Version = "42.3+1", "", broker.VersionBlock
	other := e.Dispatches[0]
	other.Key, other.Parameters = execution.Key{ID: 43, Epoch: 1}, nil
	e.Dispatches = append(e.Dispatches, other)
	return e
}

func changedEnvelope() broker.Envelope {
	return broker.Envelope{
		MessageID: "worker-7/118", Type: broker.ExecutionStatusChanged,
		Timestamp: time.Date(2026, 2, 9, 12, 0, 1, 0, time.UTC), Version: broker.WireVersion,
		Changes: []broker.Change{{Key: execution.Key{ID: 42, Epoch: 3}, From: execution.Scheduled, To: execution.Running}},
	}
}

// message is a message as it is on the wire, indented.
func message(t *testing.T, e broker.Envelope) string {
	t.Helper()
	body, err := broker.Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	return "```json\n" + b.String() + "\n```"
}
