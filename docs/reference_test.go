package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/telemetry"
)

// partNames are the parts that write statuses.
func partNames() (names []string) {
	for p := execution.NoPart + 1; int(p) < execution.Parts; p++ {
		names = append(names, p.String())
	}
	return names
}

// words are the names of a list in a cell.
func words(cell string) (names []string) {
	for name := range strings.SplitSeq(cell, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func figuresTable(*testing.T) string {
	var rows [][]string
	for _, info := range telemetry.Table() {
		kind := [...]string{"counter", "gauge", "histogram"}[info.Kind]
		rows = append(rows, []string{code(info.Name), kind, strings.Join(info.Labels, ", "), info.Help})
	}
	return markdown([]string{"Figure", "kind", "labels", "meaning"}, rows)
}

func alertsTable(t *testing.T) string {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				Expr   string
				For    string
				Labels struct{ Severity string }
			}
		}
	}
	if err := yaml.Unmarshal(telemetry.RuleFile(), &file); err != nil {
		t.Fatal(err)
	}
	expressions := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			expressions[r.Alert] = r.Expr
		}
	}
	var rows [][]string
	for _, r := range telemetry.Rules() {
		held := ""
		if r.For > 0 {
			held = yamlfile.Short(r.For)
		}
		rows = append(rows, []string{code(r.Name), r.Severity, held, r.Summary, code(expressions[r.Name])})
	}
	return markdown([]string{"Alert", "severity", "for", "when", "PromQL"}, rows)
}

func columnsTable(t *testing.T) string {
	columns := tableColumns(t)
	var rows [][]string
	for _, name := range []string{"action", "execution", "worker", "worker_incarnation", "worker_expiry", "concurrency_slot", "dead_letter", "refused_result", "execution_transition"} {
		if columns[name] == nil {
			t.Errorf("the migrations make no table %s", name)
		}
		rows = append(rows, []string{code(name), strings.Join(columns[name], ", ")})
		delete(columns, name)
	}
	// The view execution_transition shows it.
	delete(columns, "transition_group")
	var others []string
	for name := range columns {
		others = append(others, name)
	}
	slices.Sort(others)
	for _, name := range others {
		rows = append(rows, []string{code(name), strings.Join(columns[name], ", ")})
	}
	return markdown([]string{"Table", "columns"}, rows)
}

// apiDocument is what the pages use of core/api/openapi.yaml.
type apiDocument struct {
	Security   []map[string][]string
	Paths      yaml.Node
	Components struct {
		Schemas map[string]apiSchema
	}
}

// apiSchema is an object of the API.
type apiSchema struct {
	AllOf []struct {
		Ref string `yaml:"$ref"`
	} `yaml:"allOf"`
	Properties yaml.Node
}

// fields are the fields of an object: those of the objects that it extends, then its own.
func (d *apiDocument) fields(schema string) []string {
	var names []string
	for _, base := range d.Components.Schemas[schema].AllOf {
		names = append(names, d.fields(base.Ref[strings.LastIndexByte(base.Ref, '/')+1:])...)
	}
	properties := d.Components.Schemas[schema].Properties
	for i := 0; i < len(properties.Content); i += 2 {
		names = append(names, properties.Content[i].Value)
	}
	return names
}

func apiTable(t *testing.T) string {
	source, err := os.ReadFile(filepath.Join(root, "core", "api", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var document apiDocument
	if err := yaml.Unmarshal(source, &document); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	rights := func(security []map[string][]string) string {
		for _, way := range security {
			if needed := way["token"]; len(needed) > 0 {
				return needed[0]
			}
		}
		return "no token"
	}
	for i := 0; i+1 < len(document.Paths.Content); i += 2 {
		path, item := document.Paths.Content[i].Value, document.Paths.Content[i+1]
		for k := 0; k+1 < len(item.Content); k += 2 {
			method := item.Content[k].Value
			if method != "get" && method != "post" && method != "put" && method != "delete" && method != "patch" {
				continue
			}
			operation := struct {
				Summary  string
				Security []map[string][]string
			}{Security: document.Security}
			if err := item.Content[k+1].Decode(&operation); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, []string{code(strings.ToUpper(method) + " " + path), rights(operation.Security), operation.Summary})
		}
	}
	var fields [][]string
	for _, schema := range []string{"NewExecution", "NewAction", "Execution", "Result", "Worker", "Health", "DeadLetter", "Transition", "Problem"} {
		names := document.fields(schema)
		if len(names) == 0 {
			t.Errorf("core/api/openapi.yaml has no schema %s", schema)
		}
		fields = append(fields, []string{code(schema), strings.Join(names, ", ")})
	}
	return markdown([]string{"Request", "right", "what it does"}, rows) + "\n" + markdown([]string{"Object", "fields"}, fields)
}
