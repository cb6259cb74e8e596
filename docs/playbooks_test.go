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

// askPlaybooks sends a request to the handler by which executors serve the playbooks.
func askPlaybooks(method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	docs.PlaybookHandler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestHandlerServesEveryPlaybook(t *testing.T) {
	if alerts := slices.Sorted(slices.Values(telemetry.RuleNames())); !slices.Equal(alerts, docs.PlaybookNames()) {
		t.Errorf("alerts are %q, and docs/playbooks has %q", alerts, docs.PlaybookNames())
	}
	for _, name := range docs.PlaybookNames() {
		text, _ := docs.Playbook(name)
		for _, path := range []string{"/playbooks/" + name, "/playbooks/" + name + ".md"} {
			if w := askPlaybooks("GET", path); w.Code != 200 || w.Body.String() != text || !strings.HasPrefix(text, "# ") {
				t.Errorf("GET %s: %d, %.60q", path, w.Code, w.Body)
			}
		}
		at := 0
		for _, section := range []string{"Is it urgent?", "Look", "Decide", "It is over when", "Don't", "Practise it"} {
			i := strings.Index(text[at:], "\n## "+section+"\n")
			if refers := strings.Count(text, "\n") < 12; i < 0 && !refers {
				t.Errorf("docs/playbooks/%s.md has no section %q, or has it in another place", name, section)
			}
			at += max(0, i)
		}
	}
	for path, status := range map[string]int{"/playbooks/": 200, "/playbooks/nothing": 404, "/playbooks/../playbooks.go": 404} {
		if w := askPlaybooks("GET", path); w.Code != status || !strings.Contains(w.Body.String(), "/playbooks/no_executors\n") {
			t.Errorf("GET %s: %d, should be %d and list the names:\n%s", path, w.Code, status, w.Body)
		}
	}
	if w := askPlaybooks("POST", "/playbooks/"); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// Prometheus declares $externalLabels before the annotation and expands it with text/template.
func TestRunbookURLs(t *testing.T) {
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
	for _, r := range file.Groups[0].Rules {
		for external, base := range map[string]string{"": "http://127.0.0.1:8080", "http://handoff.example:8080": "http://handoff.example:8080"} {
			labels := map[string]string{"cluster": "one"}
			if external != "" {
				labels["handoff"] = external
			}
			var url strings.Builder
			parsed := template.Must(template.New(r.Alert).Parse("{{ $externalLabels := .ExternalLabels }}" + r.Annotations["runbook_url"]))
			if err := parsed.Execute(&url, map[string]any{"ExternalLabels": labels}); err != nil {
				t.Fatal(err)
			}
			path, ok := strings.CutPrefix(url.String(), base)
			if w := askPlaybooks("GET", path); !ok || path != docs.PlaybookPath+r.Alert || w.Code != 200 {
				t.Errorf("%s: with the external label %q the link is %q, and answers %d", r.Alert, external, url.String(), w.Code)
			}
		}
	}
}
