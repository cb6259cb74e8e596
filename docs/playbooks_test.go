package docs_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v4"

	"handoff/core/telemetry"
	"handoff/docs"
)

func TestEveryAlertHasAPlaybookAndEveryPlaybookAnAlert(t *testing.T) {
	alerts := telemetry.RuleNames()
	for _, name := range alerts {
		if _, ok := docs.Playbook(name); !ok {
			t.Errorf("the alert %s has no playbook: write docs/playbooks/%s.md", name, name)
		}
	}
	for _, name := range docs.PlaybookNames() {
		if !slices.Contains(alerts, name) {
			t.Errorf("docs/playbooks/%s.md belongs to no alert; alerts are %v", name, alerts)
		}
	}
}

func ask(method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	docs.PlaybookHandler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestThePlaybookHandlerAnswersEachNameAndListsThemWhereItKnowsNone(t *testing.T) {
	for _, name := range docs.PlaybookNames() {
		text, _ := docs.Playbook(name)
		for _, path := range []string{"/playbooks/" + name, "/playbooks/" + name + ".md"} {
			if w := ask("GET", path); w.Code != 200 || w.Body.String() != text || !strings.HasPrefix(text, "# ") {
				t.Errorf("GET %s: %d, %.60q", path, w.Code, w.Body)
			}
		}
	}
	for path, status := range map[string]int{"/playbooks/": 200, "/playbooks/nothing": 404, "/playbooks/../playbooks.go": 404} {
		w := ask("GET", path)
		for _, name := range docs.PlaybookNames() {
			if w.Code != status || !strings.Contains(w.Body.String(), "/playbooks/"+name+"\n") {
				t.Errorf("GET %s: %d, should be %d and list %s:\n%s", path, w.Code, status, name, w.Body)
			}
		}
	}
	if w := ask("POST", "/playbooks/"); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// The annotation is a template of Prometheus', which declares $labels, $externalLabels, $externalURL and $value in
// front of it and expands it with Go's text/template.
func TestTheRunbookURLOfEveryAlertLeadsToItsPlaybook(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(telemetry.RuleFile(), &file); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range file.Groups[0].Rules {
		n++
		for external, base := range map[string]string{"": "http://127.0.0.1:8080", "http://handoff.example:8080": "http://handoff.example:8080"} {
			labels := map[string]string{"cluster": "one"}
			if external != "" {
				labels["handoff"] = external
			}
			parsed, err := template.New(r.Alert).Parse("{{ $externalLabels := .ExternalLabels }}" + r.Annotations["runbook_url"])
			if err != nil {
				t.Fatal(err)
			}
			var url strings.Builder
			if err := parsed.Execute(&url, map[string]any{"ExternalLabels": labels}); err != nil {
				t.Fatal(err)
			}
			path, ok := strings.CutPrefix(url.String(), base)
			if w := ask("GET", path); !ok || path != docs.PlaybookPath+r.Alert || w.Code != 200 {
				t.Errorf("%s: with the external label %q the link is %q, and answers %d", r.Alert, external, url.String(), w.Code)
			}
		}
	}
	if n == 0 {
		t.Error("the rule file has no alert")
	}
}
