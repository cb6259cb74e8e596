package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"go.yaml.in/yaml/v4"

	"handoff/docs"
)

// documentChecker validates requests and responses against the OpenAPI document. The published document
// allows new fields. Here its objects are closed, so that an undocumented field fails the tests.
type documentChecker struct {
	doc    *openapi3.T
	router routers.Router
}

// description returns the document of this package.
var description = sync.OnceValues(func() (*documentChecker, error) { return describe(openAPI) })

// describe returns a checker for a document, which must be valid OpenAPI.
func describe(source []byte) (*documentChecker, error) {
	read := func(source []byte) (*openapi3.T, error) {
		loader := openapi3.NewLoader()
		doc, err := loader.LoadFromData(source)
		if err != nil {
			return nil, err
		}
		return doc, doc.Validate(loader.Context)
	}
	if _, err := read(source); err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := yaml.Unmarshal(source, &tree); err != nil {
		return nil, err
	}
	components, _ := tree["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		join(schemas, schemas[name].(map[string]any))
	}
	closeObjects(tree)
	closed, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	doc, err := read(closed)
	if err != nil {
		return nil, err
	}
	router, err := gorillamux.NewRouter(doc)
	return &documentChecker{doc, router}, err
}

// join replaces an object's allOf with the fields of the referenced objects, so that the object can be
// closed. Its own fields take precedence.
func join(schemas, schema map[string]any) {
	parts, _ := schema["allOf"].([]any)
	delete(schema, "allOf")
	for _, part := range parts {
		ref, _ := part.(map[string]any)["$ref"].(string)
		base := schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
		join(schemas, base)
		properties := maps.Clone(base["properties"].(map[string]any))
		own, _ := schema["properties"].(map[string]any)
		maps.Copy(properties, own)
		schema["properties"] = properties
		required, _ := schema["required"].([]any)
		more, _ := base["required"].([]any)
		schema["required"] = slices.Concat(required, more)
	}
}

// closeObjects forbids unknown fields in every object whose fields the document names.
func closeObjects(node any) {
	switch node := node.(type) {
	case map[string]any:
		_, named := node["properties"].(map[string]any)
		if _, said := node["additionalProperties"]; named && !said && node["type"] == "object" {
			node["additionalProperties"] = false
		}
		for _, child := range node {
			closeObjects(child)
		}
	case []any:
		for _, child := range node {
			closeObjects(child)
		}
	}
}

// alwaysAllowed lists the headers that the document describes once for all responses.
var alwaysAllowed = map[string][]string{
	"Content-Type": nil, "Content-Length": nil, "Date": nil,
	"Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"},
}

// exchange is a request and its response.
type exchange struct {
	method, target string
	sent, got      http.Header
	body           []byte
	status         int
	answer         []byte
}

// check returns an error if the document does not describe an exchange. Accepted requests must be described,
// and so must all responses, including the refusal of an unknown path.
func (d *documentChecker) check(ctx context.Context, e *exchange) error {
	method := e.method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+e.target, bytes.NewReader(e.body))
	if err != nil {
		return nil //nolint:nilerr // no client can send it
	}
	r.Header = e.sent.Clone()
	input := &openapi3filter.RequestValidationInput{Request: r, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true,
	}}
	route, params, err := d.router.FindRoute(r)
	if err != nil && strings.HasPrefix(e.target, docs.PlaybookPath) {
		// A longer path below PlaybookPath is not a playbook, but gets the same response.
		item := d.doc.Paths.Value(docs.PlaybookPath + "{alert}")
		route = &routers.Route{Spec: d.doc, PathItem: item, Operation: item.Get}
	} else if err != nil {
		// The path or the method does not exist, so the document has no operation for it. The default
		// response applies.
		problems := openapi3.NewResponses(openapi3.WithName("default", d.doc.Components.Responses["Problem"].Value))
		route = &routers.Route{Spec: d.doc, PathItem: new(openapi3.PathItem), Operation: &openapi3.Operation{Responses: problems}}
	}
	input.Route, input.PathParams = route, params
	if e.status < 300 {
		if err := openapi3filter.ValidateRequest(ctx, input); err != nil {
			return fmt.Errorf("the request was accepted: %w", err)
		}
		if err := undescribedQuery(route, r); err != nil {
			return err
		}
	}
	response := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: e.status, Header: e.got, Options: input.Options}
	kind, _, _ := strings.Cut(e.got.Get("Content-Type"), ";")
	options := *input.Options
	options.ExcludeResponseBody = e.method == http.MethodHead || kind == "text/event-stream"
	response.Options = &options
	response.SetBodyBytes(e.answer)
	if err := openapi3filter.ValidateResponse(ctx, response); err != nil {
		return err
	}
	described := route.Operation.Responses.Status(e.status)
	if described == nil {
		described = route.Operation.Responses.Default()
	}
	if err := undescribedHeader(described.Value, e.got); err != nil {
		return err
	}
	switch {
	case kind == "text/event-stream":
		return d.checkEvents(described.Value, e.answer)
	case len(described.Value.Content) == 0 && len(e.answer) > 0:
		return fmt.Errorf("the response has %d bytes, the document describes none", len(e.answer))
	case kind == "application/problem+json" && e.method != http.MethodHead:
		var p Problem
		if err := json.Unmarshal(e.answer, &p); err != nil || p.Status != e.status {
			return fmt.Errorf("the problem says status %d (%v)", p.Status, err)
		}
	}
	return nil
}

// undescribedQuery returns an error if an accepted parameter is not in the document. Operations without
// documented parameters ignore the query.
func undescribedQuery(route *routers.Route, r *http.Request) error {
	reads := slices.ContainsFunc(route.Operation.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.In == openapi3.ParameterInQuery })
	if !reads {
		return nil
	}
	for name := range r.URL.Query() {
		if route.Operation.Parameters.GetByInAndName("query", name) == nil {
			return fmt.Errorf("the query parameter %q was accepted, and the document does not describe it", name)
		}
	}
	return nil
}

func undescribedHeader(response *openapi3.Response, got http.Header) error {
	described := map[string]bool{}
	for name := range response.Headers {
		described[http.CanonicalHeaderKey(name)] = true
	}
	for name, values := range got {
		if allowed, ok := alwaysAllowed[name]; ok {
			if allowed != nil && !slices.Equal(values, allowed) {
				return fmt.Errorf("the header %s is %q, want %q", name, values, allowed)
			}
			continue
		}
		if !described[name] {
			return fmt.Errorf("the response has the header %s, which the document does not describe", name)
		}
	}
	return nil
}

// checkEvents checks the data of a stream's events, the last of which may be cut off.
func (d *documentChecker) checkEvents(response *openapi3.Response, stream []byte) error {
	media := response.Content["text/event-stream"]
	if media == nil {
		return fmt.Errorf("the document does not describe a stream")
	}
	for line := range bytes.Lines(stream) {
		data, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte("data: "))
		if !ok || !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		var event any
		if err := json.Unmarshal(data, &event); err != nil {
			return err
		}
		if err := media.Schema.Value.VisitJSON(event, openapi3.EnableJSONSchema2020()); err != nil {
			return fmt.Errorf("the event %s: %w", data, err)
		}
	}
	return nil
}

// expectDocumented fails the test if the document does not describe an exchange.
func expectDocumented(t testing.TB, e *exchange) {
	t.Helper()
	d, err := description()
	if err != nil {
		t.Errorf("openapi.yaml is not valid OpenAPI: %v", err) // not Fatal, because some tests call this from other goroutines
		return
	}
	if err := d.check(t.Context(), e); err != nil {
		t.Errorf("openapi.yaml does not describe %s %s with status %d: %v\nIf the API is right, describe it there.", e.method, e.target, e.status, err)
	}
}

func TestOpenAPIIsValid(t *testing.T) {
	if _, err := description(); err != nil {
		t.Error(err)
	}
	// The headers that are always allowed are in the document's description.
	for name, values := range alwaysAllowed {
		for _, value := range values {
			if text := name + ": " + value; !strings.Contains(readInfo(t), text) {
				t.Errorf("info.description does not mention %s", text)
			}
		}
	}
}

func readInfo(t *testing.T) string {
	var d struct{ Info struct{ Description string } }
	if err := yaml.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	return d.Info.Description
}

// Each case makes the document wrong in one place, and the checker must detect that in one exchange.
func TestWrongDocumentIsDetected(t *testing.T) {
	problem := http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"1"}}
	busy := exchange{method: "GET", target: executionsPath, got: problem, status: 503, answer: []byte(`{"type":"urn:handoff:problem:unavailable","title":"t","status":503}`)}
	plain := http.Header{"Content-Type": {"application/json"}}
	page := exchange{method: "GET", target: executionsPath + "?limit=2", got: plain, status: 200, answer: []byte(`{"executions":[],"before":null}`)}
	created := exchange{
		method: "POST", target: executionsPath, sent: plain, body: []byte(echo), got: http.Header{"Content-Type": {"application/json"}, "Location": {"/api/v1/executions/1"}},
		status: 201, answer: []byte(`{"id":1,"action_ref":"core.echo","status":"requested","epoch":0,"existed":false,"location":"/api/v1/executions/1"}`),
	}
	changed := exchange{
		method: "GET", target: changesPath, got: http.Header{"Content-Type": {"text/event-stream"}}, status: 200,
		answer: []byte("id: 1-1\n\nid: 1-2\nevent: transition\ndata: " + `{"execution":1,"action_ref":null,"line":1,"from":null,"to":"requested","epoch":0,"writer":"api","writer_incarnation":null,"worker":null,"worker_name":null,"incarnation":null,"reason":null,"actor":null,"at":null}` + "\n\ndata: {\"cut"),
	}
	for name, c := range map[string]struct {
		e                exchange
		old, replacement string
	}{
		"a field of a request":         {created, "        parameters: {type: object}\n        worker_id: {type: integer, minimum: 1, description: the worker", "        worker_id: {type: integer, minimum: 1, description: the worker"},
		"a field of a response":        {created, "        existed: {type: boolean}\n", ""},
		"a type":                       {created, "        existed: {type: boolean}", "        existed: {type: string}"},
		"a status":                     {created, "        '201': {description: It was created,", "        '202': {description: It was created,"},
		"a header":                     {created, "headers: {Location: {$ref: '#/components/headers/Location'}}, ", ""},
		"a header of a refusal":        {busy, "Retry-After:", "Retry-Later:"},
		"a status of a refusal":        {busy, ", 503]", "]"},
		"a field of a page":            {page, "before: {$ref: '#/components/schemas/Cursor'}", "after: {$ref: '#/components/schemas/Cursor'}"},
		"a parameter of a query":       {page, "{name: limit, in: query,", "{name: most, in: query,"},
		"a media type":                 {page, "content:\n            application/json:\n", "content:\n            application/xml:\n"},
		"a field of an event":          {changed, "        line: {type: integer}\n", ""},
		"a path":                       {page, "  /api/v1/executions:\n", "  /api/v1/execution:\n"},
		"a keyword that no schema has": {page, "Limit: {name: limit, in: query, schema: {type: integer,", "Limit: {name: limit, in: query, schema: {type: integer, or whatever,"},
	} {
		d, err := describe(openAPI)
		if err == nil {
			err = d.check(t.Context(), &c.e)
		}
		if err != nil {
			t.Fatalf("%s: the document as it is refuses it: %v", name, err)
		}
		broken := bytes.ReplaceAll(openAPI, []byte(c.old), []byte(c.replacement))
		if bytes.Equal(broken, openAPI) {
			t.Errorf("%s: the document has no %q", name, c.old)
			continue
		}
		if d, err = describe(broken); err == nil {
			err = d.check(t.Context(), &c.e)
		}
		if err == nil {
			t.Errorf("%s: the wrong document is accepted", name)
		}
	}
}
