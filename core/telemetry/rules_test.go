package telemetry

import (
	"flag"
	"os"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v4"
)

var update = flag.Bool("update", false, "write the rule file anew")

const rulesPath = "alerts.rules.yaml"

func TestRuleFileIsCommitted(t *testing.T) {
	want := RuleFile()
	if *update {
		if err := os.WriteFile(rulesPath, want, 0o644); err != nil { //nolint:gosec // everybody may read it
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(rulesPath)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s is not what the rules say (%v); regenerate it:\n\tgo test ./core/telemetry -run TestRuleFile -update", rulesPath, err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(got, &file); err != nil || len(file.Groups) != 1 || len(file.Groups[0].Rules) != len(Rules()) {
		t.Errorf("the rule file does not have one group of %d rules: %v", len(Rules()), err)
	}
}

func TestFiguresFollowTheConventions(t *testing.T) {
	name := regexp.MustCompile(`^handoff_[a-z]+(_[a-z]+)*$`)
	seen := make(map[string]bool)
	for f, info := range Table() {
		unit := regexp.MustCompile(`_seconds$`).MatchString(info.Name)
		total := regexp.MustCompile(`_total$`).MatchString(info.Name)
		if !name.MatchString(info.Name) || seen[info.Name] || info.Help == "" || unit != info.Seconds || total != (info.Kind == Counter) || len(info.Labels) > len(Labels{}) {
			t.Errorf("figure %d: %+v", f, info)
		}
		seen[info.Name] = true
	}
	for _, r := range Rules() {
		for _, q := range []*Query{&r.Of, r.Per} {
			if q == nil {
				continue
			}
			info := Table()[q.Figure]
			if info.Kind != Gauge && q.Window == 0 || info.Kind == Histogram && (r.Per != nil || r.Samples == 0) {
				t.Errorf("%s queries %s for something that it does not have", r.Name, info.Name)
			}
			for i, allowed := range q.Match {
				if len(allowed) > 0 && i >= len(info.Labels) {
					t.Errorf("%s matches label %d of %s", r.Name, i, info.Name)
				}
			}
		}
	}
}
