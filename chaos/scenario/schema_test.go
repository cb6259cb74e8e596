package scenario

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"handoff/chaos/fault"
)

var update = flag.Bool("update", false, "write scenarios/schema.json")

func TestCommittedSchemaIsCurrent(t *testing.T) {
	want := Schema()
	if *update {
		if err := os.WriteFile("../../scenarios/schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("../../scenarios/schema.json")
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("schema.json does not match the types (%v); regenerate it:\n\tgo test ./chaos/scenario -run TestSchema -update", err)
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// parseDocument parses a YAML file for the validator; ok is false if it isn't YAML.
func parseDocument(t *testing.T, data []byte) (doc any, ok bool) {
	t.Helper()
	var v any
	if err := yaml.Load(data, &v); err != nil {
		return nil, false
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, false
	}
	doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc, true
}

// The schema accepts everything that the loader accepts: an editor must not mark a valid file.
func TestSchemaAcceptsWhateverLoaderAccepts(t *testing.T) {
	s := compileSchema(t)
	accept := func(name string, data []byte) {
		t.Helper()
		if _, err := Parse(name, data); err != nil {
			t.Errorf("the loader refuses %s: %v", name, err)
		}
		doc, ok := parseDocument(t, data)
		if !ok {
			t.Fatalf("%s is no YAML", name)
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("the schema refuses %s: %v", name, err)
		}
	}
	files, err := filepath.Glob("../../scenarios/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no library", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		accept(file, data)
	}
	for _, f := range fault.Kinds() {
		accept(f.Name, []byte(head+"worlds: [sim]\nfaults: [{when: {at: 10s}, "+f.Example+"}]\n"))
	}
	for _, l := range configLeaves() {
		if !strings.Contains(string(Schema()), l.describeDefaults()) {
			t.Errorf("the schema lacks the default of %s", l.path)
		}
	}
	for _, more := range []string{
		"faults: []\nexpect: {}\n",
		"expect: {hardened: {}, documented: {}}\n",
		"expect: {invariants: [1, 15], rows: {failed: 3, completed: '>= 5 %'}, sometimes: [], texts: []}\n",
		"profile: [documented, hardened]\nexpect: {invariants: all}\n",
		"faults: [{when: {after: completed, nth: 2}, messages: {drop: '*', rate: 0.25%, for: 1h2m3.5s}}]\n",
		"config: {retry: {jitter_factor: 0}, message_queue: {rabbitmq: {queue_type: classic}}}\n",
	} {
		accept(more, []byte(head+more))
	}
}

// The schema checks one value at a time, so it can't refuse everything that the loader refuses. It must still
// find most mistakes to be of use in an editor.
func TestSchemaRefusesMostBrokenFiles(t *testing.T) {
	s := compileSchema(t)
	files, err := filepath.Glob("testdata/broken/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	refused, readable := 0, 0
	var accepted []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, ok := parseDocument(t, data)
		if !ok {
			continue
		}
		readable++
		if s.Validate(doc) != nil {
			refused++
		} else {
			accepted = append(accepted, filepath.Base(file))
		}
	}
	if refused*3 < readable*2 {
		t.Errorf("the schema refuses %d of %d broken files, want two thirds; it accepts\n%s", refused, readable, strings.Join(accepted, "\n"))
	}
}

// An editor shows the meaning of each key and each word of a fault.
func TestSchemaDescribesEveryFaultKey(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	at := func(of map[string]any, keys ...string) map[string]any {
		for _, key := range keys {
			of, _ = of[key].(map[string]any)
		}
		return of
	}
	described := 0
	var walk func(path string, node any)
	walk = func(path string, node any) {
		of, _ := node.(map[string]any)
		for key, value := range at(of, "properties") {
			about, _ := value.(map[string]any)["description"].(string)
			if described++; about == "" {
				t.Errorf("%s.%s has no description", path, key)
			}
			walk(path+"."+key, value)
		}
		alternatives, _ := of["oneOf"].([]any)
		for _, one := range alternatives {
			option, _ := one.(map[string]any)
			word, is := option["const"].(string)
			if about, _ := option["description"].(string); is && about == "" {
				t.Errorf("%s: %s has no description", path, word)
			}
			walk(path, one)
		}
	}
	entry := at(doc, "properties", "faults", "items", "properties")
	walk("faults", map[string]any{"properties": entry})
	if described < 60 {
		t.Errorf("only %d keys were found", described)
	}
	for _, f := range fault.Kinds() {
		if !strings.Contains(string(Schema()), jsonText(t, f.About)) {
			t.Errorf("the schema does not describe %s as list --faults does: %s", f.Name, f.About)
		}
	}
}

// jsonText returns a text as it appears in JSON, without the quotes.
func jsonText(t *testing.T, text string) string {
	t.Helper()
	data, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(string(data), `"`)
}
