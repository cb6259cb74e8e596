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

	"go.yaml.in/yaml/v4"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/telemetry"
)

var update = flag.Bool("update", false, "write the generated parts of the pages")

// pageGenerators returns functions that write the text between <!-- generated: NAME --> and <!-- /generated
// -->.
func pageGenerators(t *testing.T) map[string]func(t *testing.T) string {
	all := map[string]func(t *testing.T) string{
		"api": apiTable, "config": configTable, "figures": figuresTable, "topology": topologyTable,
		"message execution.scheduled": scheduledMessage, "faults": faultsTable, "invariants": invariantNames,
		"promises": promiseRules,
	}
	for name, keys := range scenarioParts(t) {
		all["keys of "+name] = scenarioKeysTable(keys)
	}
	for number, s := range defectsOfTheCode(t) {
		all["shown by "+number] = evidenceList(s)
	}
	return all
}

var generated = regexp.MustCompile(`(?s)(<!-- generated: ([^>]*?) -->\n)(.*?)(<!-- /generated -->)`)

// The generated tables of the pages match the code. After a change of the code:
//
//	go test ./docs -run TestContract -update
func TestContract(t *testing.T) {
	known, used := pageGenerators(t), map[string]bool{}
	for _, p := range readPages(t) {
		want := generated.ReplaceAllStringFunc(p.text, func(block string) string {
			m := generated.FindStringSubmatch(block)
			generate := known[m[2]]
			if generate == nil {
				t.Errorf("%s: nothing generates %q; there are %q", p.path, m[2], slices.Sorted(maps.Keys(known)))
				return block
			}
			used[m[2]] = true
			return m[1] + "\n" + strings.TrimSpace(generate(t)) + "\n\n" + m[4]
		})
		switch {
		case want == p.text:
		case *update:
			if err := os.WriteFile(filepath.Join(root, p.path), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			have, want := strings.Split(p.text, "\n"), strings.Split(want, "\n")
			at := 0
			for at+1 < min(len(have), len(want)) && have[at] == want[at] {
				at++
			}
			t.Errorf("%s does not match the code: go test ./docs -run TestContract -update\nline %d\n  have %s\n  want %s", p.path, at+1, have[at], want[at])
		}
	}
	for name := range known {
		if !used[name] {
			t.Errorf("%q is generated, but no page has it", name)
		}
	}
}

func markdownTable(header []string, rows [][]string) string {
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

func inlineCode(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// someWorker is a worker's number that no other part of a name contains.
const someWorker execution.WorkerID = 987654321

// forAnyWorker replaces someWorker in a name by a placeholder.
func forAnyWorker(name string) string {
	return strings.ReplaceAll(name, fmt.Sprint(int64(someWorker)), "{id}")
}

func topologyTable(t *testing.T) string {
	q := config.Default(config.Hardened).MessageQueue.RabbitMQ
	all, own := broker.ExecutorTopology(q), broker.WorkerTopology(q, someWorker)
	var exchanges, queues [][]string
	for _, e := range all.Exchanges {
		exchanges = append(exchanges, []string{inlineCode(e.Name), string(e.Kind)})
	}
	seen := map[string]bool{}
	for _, declared := range []broker.Topology{all, own} {
		for _, queue := range declared.Queues {
			if seen[queue.Name] {
				continue
			}
			seen[queue.Name] = true
			row := []string{inlineCode(forAnyWorker(queue.Name)), ""}
			for _, b := range declared.Bindings {
				if b.Queue == queue.Name {
					row[1] = inlineCode(b.Exchange) + " " + inlineCode(forAnyWorker(b.Pattern))
				}
			}
			for _, kind := range []string{"quorum", "classic"} {
				queue.Type = kind
				arguments, err := rabbitmq.QueueArguments(queue)
				if err != nil {
					t.Fatal(err)
				}
				delete(arguments, "x-queue-type")
				var list []string
				for _, key := range slices.Sorted(maps.Keys(arguments)) {
					list = append(list, inlineCode(fmt.Sprintf("%s: %v", key, arguments[key])))
				}
				row = append(row, strings.Join(list, ", "))
			}
			queues = append(queues, row)
		}
	}
	return markdownTable([]string{"Exchange", "kind"}, exchanges) + "\n" +
		markdownTable([]string{"Queue", "bound to", "arguments (quorum)", "arguments (classic)"}, queues)
}

// scheduledMessage returns a dispatch in its wire format, indented.
func scheduledMessage(t *testing.T) string {
	body, err := broker.Encode(&broker.Envelope{
		MessageID: "42.3", Type: broker.ExecutionScheduled, CorrelationID: "42",
		Timestamp: time.Date(2026, 2, 9, 12, 0, 0, 0, time.UTC), Version: broker.WireVersion,
		Dispatches: []broker.Dispatch{{
			Key: execution.Key{ID: 42, Epoch: 3}, Worker: 7, Incarnation: 19,
			Action: execution.Action{
				Ref: "core.echo", Runtime: "shell", Entrypoint: "echo.sh", Timeout: 30 * time.Second, DispatchTimeout: time.Minute, MaxRetries: 2,
			},
			Parameters: []byte(`{"message":"hello"}`),
		}},
	})
	var b bytes.Buffer
	if err == nil {
		err = json.Indent(&b, body, "", "  ")
	}
	if err != nil {
		t.Fatal(err)
	}
	return "```json\n" + b.String() + "\n```"
}

// configTable lists every key with the defaults of both profiles. The meaning of a key is written by hand in
// the table itself.
func configTable(t *testing.T) string {
	hardened, documented := defaultSettings(t, config.Hardened), defaultSettings(t, config.Documented)
	page := readText(t, "contract.md")
	var rows [][]string
	for i, s := range hardened {
		if s.key == "profile" {
			continue
		}
		other := documented[i].value
		if other == s.value {
			other = ""
		}
		meaning := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(s.key) + "` \\|.*\\| ([^|]+) \\|$").FindStringSubmatch(page)
		if meaning == nil {
			t.Errorf("docs/contract.md lacks the meaning of %s: write it into the last cell of its row", s.key)
			meaning = []string{"", "?"}
		}
		rows = append(rows, []string{inlineCode(s.key), strings.Trim(s.value, "[]"), strings.Trim(other, "[]"), meaning[1]})
	}
	return markdownTable([]string{"Key", "hardened", "documented, if it differs", "meaning"}, rows)
}

func figuresTable(*testing.T) string {
	var rows [][]string
	for _, info := range telemetry.Table() {
		kind := [...]string{"counter", "gauge", "histogram"}[info.Kind]
		rows = append(rows, []string{inlineCode(info.Name), kind, strings.Join(info.Labels, ", "), info.Help})
	}
	return markdownTable([]string{"Figure", "kind", "labels", "meaning"}, rows)
}

// apiOperation is the part of an API request's definition that the page shows.
type apiOperation struct {
	Summary  string
	Security []map[string][]string
}

func apiTable(t *testing.T) string {
	var document struct {
		Security []map[string][]string
		Paths    yaml.Node
	}
	if err := yaml.Unmarshal([]byte(readText(t, "../core/api/openapi.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for i := 0; i+1 < len(document.Paths.Content); i += 2 {
		path, item := document.Paths.Content[i].Value, document.Paths.Content[i+1]
		for k := 0; k+1 < len(item.Content); k += 2 {
			method := item.Content[k].Value
			if !slices.Contains([]string{"get", "post", "put", "delete", "patch"}, method) {
				continue
			}
			operation := apiOperation{Security: document.Security}
			if err := item.Content[k+1].Decode(&operation); err != nil {
				t.Fatal(err)
			}
			right := "no token"
			for _, way := range operation.Security {
				if needed := way["token"]; len(needed) > 0 {
					right = needed[0]
				}
			}
			rows = append(rows, []string{inlineCode(strings.ToUpper(method) + " " + path), right, operation.Summary})
		}
	}
	return markdownTable([]string{"Request", "right", "what it does"}, rows)
}
