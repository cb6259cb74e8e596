package api

import (
	"bytes"
	"maps"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"handoff/core/execution"
)

// document is the part of the OpenAPI document that the tests compare with the code.
type document struct {
	Paths      map[string]map[string]yaml.Node `yaml:"paths"`
	Components struct {
		Parameters map[string]struct {
			Name string `yaml:"name"`
		} `yaml:"parameters"`
		Schemas map[string]struct {
			Enum       []string             `yaml:"enum"`
			Required   []string             `yaml:"required"`
			Properties map[string]yaml.Node `yaml:"properties"`
			AllOf      []struct {
				Ref string `yaml:"$ref"`
			} `yaml:"allOf"`
		} `yaml:"schemas"`
	} `yaml:"components"`
}

func readDocument(t *testing.T) (d document) {
	t.Helper()
	if err := yaml.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func same(t *testing.T, what string, documented, real []string) {
	t.Helper()
	slices.Sort(documented)
	slices.Sort(real)
	if !slices.Equal(documented, real) {
		t.Errorf("%s: the document has %v, the code has %v", what, documented, real)
	}
}

func TestOpenAPIHasEveryPath(t *testing.T) {
	got := httptest.NewRecorder()
	new(Server).getOpenAPI(got, nil)
	if got.Code != 200 || got.Header().Get("Content-Type") != "application/yaml" || got.Body.String() != string(openAPI) {
		t.Errorf("the document is answered with %d, %s", got.Code, got.Header().Get("Content-Type"))
	}
	documented, real := []string{}, []string{"GET /healthz", "GET /readyz", "GET /metrics", "GET /playbooks/{alert}"}
	for path, operations := range readDocument(t).Paths {
		for method := range operations {
			if method != "parameters" {
				documented = append(documented, strings.ToUpper(method)+" "+path)
			}
		}
	}
	for path, methods := range new(Server).routes() {
		for method := range methods {
			real = append(real, method+" "+path)
		}
	}
	same(t, "paths", documented, real)
}

// Tools that read the document need the refusals of each operation; a default response does not show them.
func TestEveryOperationDescribesARefusal(t *testing.T) {
	for path, operations := range readDocument(t).Paths {
		for method, operation := range operations {
			if method == "parameters" {
				continue
			}
			var described struct {
				Responses map[string]yaml.Node `yaml:"responses"`
			}
			if err := operation.Decode(&described); err != nil {
				t.Fatal(err)
			}
			refuses := slices.ContainsFunc(slices.Collect(maps.Keys(described.Responses)), func(code string) bool { return strings.HasPrefix(code, "4") })
			if !refuses {
				t.Errorf("%s %s describes no response 4XX", strings.ToUpper(method), path)
			}
		}
	}
}

// Every reference names a component, and every component is used.
func TestOpenAPIComponentsAreDefinedAndUsed(t *testing.T) {
	var all struct {
		Components map[string]map[string]yaml.Node `yaml:"components"`
	}
	if err := yaml.Unmarshal(openAPI, &all); err != nil {
		t.Fatal(err)
	}
	var there, used []string
	for kind, list := range all.Components {
		for name := range list {
			if kind != "securitySchemes" {
				there = append(there, "#/components/"+kind+"/"+name)
			}
		}
	}
	for line := range bytes.Lines(openAPI) {
		for _, part := range strings.Split(string(line), "$ref: '")[1:] {
			target, _, _ := strings.Cut(part, "'")
			used = append(used, target)
		}
	}
	slices.Sort(used)
	same(t, "references", slices.Compact(used), there)
}

func TestOpenAPIHasEveryField(t *testing.T) {
	schemas := readDocument(t).Components.Schemas
	for name, value := range map[string]any{
		"Execution": executionView{}, "ListedExecution": listedView{}, "Unreadable": unreadableView{}, "ListedDeadLetter": listedLetterView{}, "Result": resultView{}, "Created": createdView{}, "BatchResult": batchResult{}, "Transition": transitionView{}, "Change": changeView{},
		"Action": actionView{}, "NewAction": newActionView{}, "Worker": workerView{}, "Capabilities": capabilitiesView{}, "Health": healthView{},
		"DeadLetter": deadLetterView{}, "Observation": observationView{}, "Replayed": replayView{}, "DeadLetterSummary": deadLetterSummaryView{}, "DeadLetterGroup": deadLetterGroupView{}, "Discarded": discardView{}, "ExecutionCount": executionCount{}, "BulkResult": bulkResult{}, "Problem": Problem{}, "FieldError": FieldError{},
	} {
		var fields, always []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(value)) {
			tag, ok := f.Tag.Lookup("json")
			if !ok {
				continue
			}
			field, options, _ := strings.Cut(tag, ",")
			fields = append(fields, field)
			if options != "omitempty" {
				always = append(always, field)
			}
		}
		documented, required := slices.Collect(maps.Keys(schemas[name].Properties)), schemas[name].Required
		for _, part := range schemas[name].AllOf {
			of := schemas[strings.TrimPrefix(part.Ref, "#/components/schemas/")]
			documented, required = slices.AppendSeq(documented, maps.Keys(of.Properties)), append(required, of.Required...)
		}
		same(t, name, documented, fields)
		if name != "NewAction" {
			same(t, "what is required of "+name, required, always)
		}
	}
	var statuses []string
	for s := execution.Requested; s <= execution.Abandoned; s++ {
		statuses = append(statuses, s.String())
	}
	same(t, "statuses", schemas["Status"].Enum, statuses)
}

// The refusal of an unknown field lists the allowed fields of a request.
func TestOpenAPIHasRequestFields(t *testing.T) {
	b := setup(t, nil)
	d := readDocument(t)
	allowed := func(a answer) (names []string) {
		errors, _ := a.json["errors"].([]any)
		for _, e := range errors {
			field, _ := e.(map[string]any)
			list, _ := field["allowed"].([]any)
			for _, name := range list {
				names = append(names, name.(string))
			}
		}
		return names
	}
	for name, a := range map[string]answer{
		"NewExecution": b.do("POST", executionsPath, `{"nonsense": 1}`),
		"NewBatchItem": b.do("POST", executionsPath+"/batch", `{"executions": [{"nonsense": 1}]}`),
		"NewAction":    b.do("POST", "/api/v1/actions", `{"nonsense": 1}`),
		"BulkCommand":  b.do("POST", executionsPath+"/retry", `{"nonsense": 1}`),
	} {
		same(t, name, slices.Collect(maps.Keys(d.Components.Schemas[name].Properties)), allowed(a))
	}
	for _, path := range []string{executionsPath, executionsPath + "/count", "/api/v1/actions", "/api/v1/dead-letters", "/api/v1/observations", "/api/v1/changes", "/api/v1/workers"} {
		var get struct {
			Parameters []struct {
				Name string `yaml:"name"`
				In   string `yaml:"in"`
				Ref  string `yaml:"$ref"`
			} `yaml:"parameters"`
		}
		node := d.Paths[path]["get"]
		if err := node.Decode(&get); err != nil {
			t.Fatal(err)
		}
		var documented []string
		for _, p := range get.Parameters {
			name := p.Name
			if _, component, ok := strings.Cut(p.Ref, "#/components/parameters/"); ok {
				name = d.Components.Parameters[component].Name
			}
			if p.In != "header" {
				documented = append(documented, name)
			}
		}
		same(t, "the query of "+path, documented, allowed(b.do("GET", path+"?nonsense=1", "")))
	}
}
