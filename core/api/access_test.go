package api

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// defaultToken returns the tokens of a deployment that sets only api.token.
func defaultToken(token string) []config.Token {
	var d config.Deployment
	d.API.Token = token
	return d.Tokens()
}

// threeTokens adds a token for each right: RIGHT-token, with the name the-RIGHT and the old token
// old-RIGHT-token.
func threeTokens(o *Options) {
	for _, r := range config.Rights() {
		o.Tokens = append(o.Tokens, config.Token{Name: "the-" + string(r), Token: string(r) + "-token", OldToken: "old-" + string(r) + "-token", Rights: r})
	}
}

// needs lists the endpoints by the right that they require, independently of the code under test.
var needs = map[config.Right][]string{
	config.RightSubmit: {
		"POST /api/v1/executions", "POST /api/v1/executions/batch", "POST /api/v1/executions/cancel", "POST /api/v1/executions/retry",
		"POST /api/v1/executions/{id}/cancel", "POST /api/v1/executions/{id}/retry",
	},
	config.RightOperate: {
		"POST /api/v1/actions",
		"POST /api/v1/dead-letters/discard", "POST /api/v1/dead-letters/{id}/discard", "POST /api/v1/dead-letters/{id}/replay",
		"POST /api/v1/workers/{id}/cordon", "POST /api/v1/workers/{id}/drain", "POST /api/v1/workers/{id}/uncordon",
	},
}

func TestEveryEndpointNeedsARight(t *testing.T) {
	got := map[config.Right][]string{}
	for path, m := range new(Server).routes() {
		for method, e := range m {
			if !slices.Contains(config.Rights(), e.needs) {
				t.Errorf("%s %s needs the right %q, which no token can have", method, path, e.needs)
			}
			if e.needs == config.RightRead && method != http.MethodGet {
				t.Errorf("%s %s needs no more than read", method, path)
			}
			if e.needs != config.RightRead {
				got[e.needs] = append(got[e.needs], method+" "+path)
			}
		}
	}
	for right, want := range needs {
		if slices.Sort(got[right]); !slices.Equal(got[right], want) {
			t.Errorf("%s is needed by %q, want %q", right, got[right], want)
		}
	}
}

// The OpenAPI document names the right that each operation requires.
func TestOpenAPIDocumentsRights(t *testing.T) {
	type security []map[string][]config.Right
	var everywhere struct{ Security security }
	if err := yaml.Unmarshal(openAPI, &everywhere); err != nil {
		t.Fatal(err)
	}
	for path, m := range new(Server).routes() {
		for method, e := range m {
			var operation struct{ Security security }
			node := readDocument(t).Paths[path][strings.ToLower(method)]
			if err := node.Decode(&operation); err != nil {
				t.Fatal(err)
			}
			if operation.Security == nil {
				operation.Security = everywhere.Security
			}
			if len(operation.Security) != 2 || len(operation.Security[0]) > 0 || !slices.Equal(operation.Security[1]["token"], []config.Right{e.needs}) {
				t.Errorf("%s %s needs %s, the document says %v", method, path, e.needs, operation.Security)
			}
		}
	}
}

// Every token is tried at every endpoint. Tokens without the right are refused and change nothing; the others
// are accepted.
func TestTokenRightsAreEnforced(t *testing.T) {
	for _, has := range append(config.Rights(), "") {
		b := setup(t, threeTokens)
		b.store.workers = []store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 1, Incarnation: 1}, Name: "w"}}
		b.store.rows = []execution.Execution{{ID: 1, Status: execution.Requested, Action: execution.Action{Ref: "core.echo"}}}
		b.store.letters = []store.StoredDeadLetter{{ID: 1, DeadLetter: store.DeadLetter{Key: execution.Key{ID: 1}, Open: true}}}
		asked := 0
		for _, path := range slices.Sorted(maps.Keys(new(Server).routes())) {
			for method, e := range new(Server).routes()[path] {
				if strings.HasSuffix(path, "/changes") {
					continue // this stream never ends, and requires the same right as other reads
				}
				target := strings.NewReplacer("{id}", "1", "{ref}", "core.echo").Replace(path)
				body := ""
				if method == http.MethodPost && (strings.HasSuffix(path, "/executions") || strings.HasSuffix(path, "/batch") || strings.HasSuffix(path, "/actions")) {
					body = "{}"
				}
				var headers []string
				if has != "" {
					headers = []string{"Authorization", "Bearer " + string(has) + "-token"}
				}
				before := b.store.calls
				a := b.ask(method, target, body, headers...)
				asked++
				want := 0
				switch {
				case has == "":
					want = http.StatusUnauthorized
				case !has.Includes(e.needs):
					want = http.StatusForbidden
				}
				switch {
				case want == 0 && (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden):
					t.Errorf("%s %s with %q: %d %s", method, path, has, a.status, a.text)
				case want != 0 && (a.status != want || b.store.calls != before):
					t.Errorf("%s %s with %q: %d, %d calls of the database, want %d and none", method, path, has, a.status, b.store.calls-before, want)
				}
				detail := fmt.Sprintf("%s %s needs the right %s, and the token \\\"the-%s\\\" has the right %s.", method, target, e.needs, has, has)
				if want == http.StatusForbidden && (!strings.Contains(a.text, detail) || !strings.Contains(a.text, typeForbidden)) {
					t.Errorf("the refusal says %s, want %s", a.text, detail)
				}
			}
		}
		if asked < 20 {
			t.Errorf("only %d endpoints were requested", asked)
		}
	}
}

// During a rotation both tokens are accepted, under one name and with the same idempotency keys.
func TestTokenRotationKeepsName(t *testing.T) {
	b := setup(t, threeTokens)
	first := b.do("POST", executionsPath, echo, "Idempotency-Key", "k", "Authorization", "Bearer old-submit-token")
	again := b.do("POST", executionsPath, echo, "Idempotency-Key", "k", "Authorization", "Bearer submit-token")
	if first.status != 201 || again.status != 200 || again.json["id"] != first.json["id"] {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if other := b.do("POST", executionsPath, echo, "Idempotency-Key", "k", "Authorization", "Bearer operate-token"); other.status != 201 {
		t.Errorf("the key of another caller: %+v", other)
	}
	if key := b.store.rows[0].IdempotencyKey; key != "core.echo name:the-submit k" {
		t.Errorf("the key is stored as %q", key)
	}
	// The key scopes of api.token and of callers without a token are the same as before tokens had names.
	old := setup(t, func(o *Options) { o.Tokens = defaultToken("secret") })
	old.do("POST", executionsPath, echo, "Idempotency-Key", "k", "Authorization", "Bearer secret")
	if key := old.store.rows[0].IdempotencyKey; key != "core.echo 23f012270f59 k" {
		t.Errorf("the key of api.token is stored as %q", key)
	}
}

func TestLogShowsTokenNameOnly(t *testing.T) {
	var log bytes.Buffer
	b := setup(t, func(o *Options) {
		threeTokens(o)
		o.Log = slog.New(slog.NewJSONHandler(&log, nil))
	})
	b.do("GET", executionsPath+"/1", "", "Authorization", "Bearer read-token")
	b.do("POST", executionsPath, echo, "Authorization", "Bearer read-token")
	b.do("POST", executionsPath, echo, "Authorization", "Bearer wrong-token")
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], `"token":"the-read"`) || !strings.Contains(lines[1], `"status":403`) || !strings.Contains(lines[1], `"token":"the-read"`) ||
		strings.Contains(lines[2], `"token"`) || strings.Contains(log.String(), "-token\"") {
		t.Errorf("the log:\n%s", &log)
	}
}

// Without a token, every client that reaches the server may do everything. So pages of other sites must not
// reach it under any name.
func TestForeignHostsAndOriginsAreRefused(t *testing.T) {
	const rebound, page = "evil.example:8080", "http://evil.example:8080"
	for name, c := range map[string]struct {
		change        func(*Options)
		headers       []string
		api, open     int
		apiType, more string
	}{
		"this machine":      {func(o *Options) { o.Loopback = true }, []string{"Host", "localhost:8080"}, 404, 200, typeNotFound, ""},
		"DNS rebinding":     {func(o *Options) { o.Loopback = true }, []string{"Host", rebound, "Origin", page, "Sec-Fetch-Site", "same-origin"}, 403, 403, typeForeignHost, "api.allowed_hosts"},
		"an event source":   {func(o *Options) { o.Loopback = true }, []string{"Host", "localhost:8080", "Origin", page, "Sec-Fetch-Site", "cross-site"}, 403, 403, typeCrossOrigin, ""},
		"forwarded":         {func(o *Options) { o.Loopback = true }, []string{"Host", rebound, "X-Forwarded-Host", "localhost"}, 403, 403, typeForeignHost, ""},
		"allowed":           {func(o *Options) { o.Loopback = true; o.AllowedHosts = []string{"handoff.example.com"} }, []string{"Host", "handoff.example.com", "Origin", "https://handoff.example.com"}, 404, 200, typeNotFound, ""},
		"open on purpose":   {func(*Options) {}, []string{"Host", rebound}, 403, 200, typeForeignHost, "localhost, loopback addresses"},
		"with a token":      {func(o *Options) { o.Loopback = true; threeTokens(o) }, []string{"Host", rebound, "Authorization", "Bearer operate-token"}, 404, 200, typeNotFound, ""},
		"without the token": {func(o *Options) { o.Loopback = true; threeTokens(o) }, []string{"Host", rebound}, 401, 200, typeUnauthorized, ""},
	} {
		b := setup(t, func(o *Options) {
			c.change(o)
			o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeBody(w, "text/plain", 200, []byte("null")) })
			o.Playbooks = o.Metrics
		})
		if a := b.do("GET", executionsPath+"/1", "", c.headers...); a.status != c.api || a.json["type"] != c.apiType || !strings.Contains(a.text, c.more) {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
		for _, path := range []string{"/healthz", "/metrics", "/playbooks/x"} {
			if a := b.do("GET", path, "", c.headers...); a.status != c.open {
				t.Errorf("%s: %s: %d %s", name, path, a.status, a.text)
			}
		}
	}
	// The attacking page tries to create an action and to run it.
	b := setup(t, func(o *Options) { o.Loopback = true })
	attack := []string{"Host", rebound, "Origin", page, "Sec-Fetch-Site", "same-origin"}
	one := b.do("POST", "/api/v1/actions", `{"ref":"pwn.rebind","runtime":"shell","entrypoint":"id","max_retries":0}`, attack...)
	two := b.do("POST", executionsPath, echo, attack...)
	if one.status != 403 || two.status != 403 || b.store.calls > 0 {
		t.Errorf("the attack: %d %s, %d %s, %d calls of the database", one.status, one.text, two.status, two.text, b.store.calls)
	}
	// With a token, a page of another site is refused even if it knows the token.
	b = setup(t, threeTokens)
	if a := b.do("POST", executionsPath, echo, "Authorization", "Bearer operate-token", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"); a.status != 403 || a.json["type"] != typeCrossOrigin {
		t.Errorf("across origins with a token: %d %s", a.status, a.text)
	}
}

// Every change records the name of its token, and the API shows it.
func TestChangesRecordTokenName(t *testing.T) {
	b := setup(t, threeTokens)
	b.store.workers = []store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 1, Incarnation: 1}, Name: "w"}}
	for id := range int64(4) {
		b.store.letters = append(b.store.letters, store.StoredDeadLetter{ID: id + 1, DeadLetter: store.DeadLetter{Key: execution.Key{ID: 1, Epoch: 2}, Open: true}})
	}
	submit, operate := []string{"Authorization", "Bearer submit-token"}, []string{"Authorization", "Bearer operate-token"}
	for _, c := range []struct {
		path, body string
		headers    []string
		look       string
		field      string
		want       string
	}{
		{executionsPath, echo, submit, executionsPath + "/1", "submitted_by", "the-submit"},
		{executionsPath + "/batch", `{"executions": [` + echo + `]}`, operate, executionsPath + "/2", "submitted_by", "the-operate"},
		{executionsPath + "/1/cancel", "", submit, executionsPath + "/1", "cancel_requested_by", "the-submit"},
		{executionsPath + "/1/retry", "", operate, executionsPath + "/3", "submitted_by", "the-operate"},
		{"/api/v1/dead-letters/1/discard", "", operate, "/api/v1/dead-letters/1", "handled_by", "the-operate"},
		{"/api/v1/dead-letters/2/replay", "", operate, executionsPath + "/4", "submitted_by", "the-operate"},
		{"/api/v1/workers/w/drain", "", operate, "/api/v1/workers/w", "cordon_changed_by", "the-operate"},
		{"/api/v1/actions", `{"ref": "x", "runtime": "shell", "entrypoint": "x", "max_retries": 0}`, operate, "/api/v1/actions/x", "put_by", "the-operate"},
	} {
		if c.path == executionsPath+"/1/retry" {
			b.store.rows[0].Status = execution.Failed
		}
		if a := b.ask("POST", c.path, c.body, c.headers...); a.status >= 400 {
			t.Errorf("POST %s: %d %s", c.path, a.status, a.text)
		}
		if a := b.do("GET", c.look, "", submit...); a.json[c.field] != c.want {
			t.Errorf("after POST %s: %s is %v, want %s", c.path, c.field, a.json[c.field], c.want)
		}
	}
	b.ask("POST", "/api/v1/dead-letters/discard", `{"ids": [3]}`, operate...)
	if b.store.discard.Actor != "the-operate" {
		t.Errorf("a bulk discard has the actor %q", b.store.discard.Actor)
	}
	b.store.rows[1].Status, b.store.rows[1].Epoch = execution.Scheduled, 2
	b.store.letters[3].Key.ID = 2
	b.ask("POST", "/api/v1/dead-letters/4/replay", "", operate...)
	if len(b.store.reclaims) != 1 || b.store.reclaims[0].Actor != "the-operate" {
		t.Errorf("the replay reclaims: %+v", b.store.reclaims)
	}
	b.store.audit = map[execution.ID][]store.Transition{1: {{To: execution.Requested, By: execution.API, Actor: "the-submit"}, {To: execution.Running, By: execution.Worker}}}
	if a := b.do("GET", executionsPath+"/1/transitions", "", submit...); !strings.Contains(a.text, `"actor":"the-submit"`) || !strings.Contains(a.text, `"actor":null`) {
		t.Errorf("transitions: %s", a.text)
	}
	// Without tokens, no sender is recorded.
	b = setup(t, nil)
	b.do("POST", executionsPath, echo)
	if a := b.do("GET", executionsPath+"/1", ""); a.json["submitted_by"] != nil {
		t.Errorf("without tokens: %s", a.text)
	}
}
