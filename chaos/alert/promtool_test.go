package alert

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/live/without"
	"handoff/core/telemetry"
)

// story is what one rule sees, sample by sample, and when its alert fires.
type story struct {
	name   string
	rule   telemetry.Rule
	series []*told
	// looks are the moments, in samples, at which both judges are asked.
	looks []look
}

// told is one series: a gauge's values, or how much a counter grows with each sample.
type told struct {
	figure telemetry.Figure
	labels telemetry.Labels
	values []int64
}

type look struct {
	sample int
	firing bool
}

// stories are two for a rule: its value goes from exactly the limit to one above it and back; and, where percentages of
// little are to say nothing, everything is wrong in one sample too few.
func stories(t *testing.T, r telemetry.Rule) []*story {
	t.Helper()
	for _, q := range []*telemetry.Query{&r.Of, r.Per} {
		if q != nil && telemetry.Table()[q.Figure].Kind == telemetry.Histogram {
			t.Fatalf("%s asks a histogram: tell here which series make it fire, and which don't", r.Name)
		}
	}
	whole := &story{name: r.Name, rule: r}
	quiet, loud := levels(r)
	longest := r.Of.Window
	if r.Per != nil {
		longest = max(longest, r.Per.Window)
	}
	length := int((longest+r.For)/telemetry.SampleInterval) + 3
	for i, firing := range []bool{false, true, false} {
		level := quiet
		if firing {
			level = loud
		}
		for range length {
			whole.tell(level, perSample)
		}
		whole.looks = append(whole.looks, look{(i+1)*length - 1, firing})
	}
	if r.Samples == 0 {
		return []*story{whole}
	}
	few := &story{name: r.Name + ", too few samples", rule: r}
	if counts(&r.Of) {
		few.tell(0, 0)
		few.tell(r.Samples-1, r.Samples-1)
		few.tell(0, 0)
	} else {
		for range r.Samples - 1 {
			few.tell(perSample, perSample)
		}
	}
	few.looks = []look{{len(few.series[0].values) - 1, false}}
	return []*story{whole, few}
}

// perSample is what a rule's percentage is of, in each sample.
const perSample = 100

// levels are what a rule looks at in each sample when it is at its limit, and when it is beyond.
func levels(r telemetry.Rule) (quiet, loud int64) {
	switch {
	case r.Zero:
		return 1, 0
	case r.Per == nil && counts(&r.Of):
		each := r.Above / int64(r.Of.Window/telemetry.SampleInterval)
		return each, each + 1
	default:
		return r.Above, r.Above + 1
	}
}

func counts(q *telemetry.Query) bool { return telemetry.Table()[q.Figure].Kind == telemetry.Counter }

// tell adds a sample: of what is looked at, and in all of what it is a percentage of.
func (s *story) tell(of, per int64) {
	if s.series == nil {
		s.series = append(s.series, &told{figure: s.rule.Of.Figure, labels: selected(&s.rule.Of, nil)})
		if p := s.rule.Per; p != nil {
			s.series = append(s.series, &told{figure: p.Figure, labels: selected(p, &s.rule.Of)})
		}
	}
	first := s.series[0]
	first.values = append(first.values, of)
	if p := s.rule.Per; p != nil {
		if p.Figure == first.figure && p.Matches(first.labels) {
			per -= of // it counts there, too
		}
		s.series[1].values = append(s.series[1].values, per)
	}
}

// selected are labels that a query selects, and another one of the same figure, if there is one, does not.
func selected(q, not *telemetry.Query) (l telemetry.Labels) {
	for i := range telemetry.Table()[q.Figure].Labels {
		switch {
		case len(q.Match[i]) > 0:
			l[i] = q.Match[i][0]
		case not != nil && not.Figure == q.Figure && len(not.Match[i]) > 0:
			l[i] = "other"
		default:
			l[i] = "any"
		}
	}
	return l
}

// judged is what the board says at the moments of the story.
func (s *story) judged() (all []look) {
	b := NewBoard()
	r := b.Process("executor-1")
	for i := range s.series[0].values {
		for _, one := range s.series {
			v := one.values[i]
			info := telemetry.Table()[one.figure]
			switch {
			case info.Kind == telemetry.Counter:
				r.Add(one.figure, v, one.labels)
			case info.Seconds:
				r.Set(one.figure, v*int64(time.Second), one.labels)
			default:
				r.Set(one.figure, v, one.labels)
			}
		}
		b.Look(time.Duration(i) * telemetry.SampleInterval)
		for _, at := range s.looks {
			if at.sample == i {
				all = append(all, look{i, b.Firing(s.rule.Name)})
			}
		}
	}
	return all
}

// The harness's judge says of every rule what the rule is about.
func TestEveryRuleFiresBeyondItsLimitAndNotAtIt(t *testing.T) {
	for _, r := range telemetry.Rules() {
		for _, s := range stories(t, r) {
			if got := s.judged(); fmt.Sprint(got) != fmt.Sprint(s.looks) {
				t.Errorf("%s: judged %v, want %v", s.name, got, s.looks)
			}
		}
	}
}

// The files of promtool's unit tests.
type (
	unitTests struct {
		RuleFiles []string   `yaml:"rule_files"`
		Every     string     `yaml:"evaluation_interval"`
		Tests     []unitTest `yaml:"tests"`
	}
	unitTest struct {
		Name           string            `yaml:"name"`
		Interval       string            `yaml:"interval"`
		Series         []inputSeries     `yaml:"input_series"`
		Alerts         []alertTest       `yaml:"alert_rule_test"`
		ExternalLabels map[string]string `yaml:"external_labels"`
	}
	inputSeries struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	alertTest struct {
		At       string          `yaml:"eval_time"`
		Name     string          `yaml:"alertname"`
		Expected []expectedAlert `yaml:"exp_alerts"`
	}
	expectedAlert struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	}
)

// address is the external label with which links in annotations begin.
const address = "http://127.0.0.1:8080"

// promtool is the story as a unit test of Prometheus' rules.
func (s *story) promtool(annotations map[string]string) unitTest {
	test := unitTest{Name: s.name, Interval: telemetry.SampleInterval.String(), ExternalLabels: map[string]string{"handoff": address}}
	for _, one := range s.series {
		info := telemetry.Table()[one.figure]
		labels := []string{`instance="executor-1"`}
		for i, name := range info.Labels {
			labels = append(labels, fmt.Sprintf("%s=%q", name, one.labels[i]))
		}
		var values []string
		sum := int64(0)
		for _, v := range one.values {
			if info.Kind == telemetry.Counter {
				sum += v
				v = sum
			}
			values = append(values, fmt.Sprint(v))
		}
		test.Series = append(test.Series, inputSeries{info.Name + "{" + strings.Join(labels, ",") + "}", strings.Join(values, " ")})
	}
	for _, at := range s.looks {
		a := alertTest{At: (time.Duration(at.sample) * telemetry.SampleInterval).String(), Name: s.rule.Name}
		if at.firing {
			a.Expected = []expectedAlert{{map[string]string{"severity": s.rule.Severity}, annotations}}
		}
		test.Alerts = append(test.Alerts, a)
	}
	return test
}

// Prometheus judges the rule file as the harness judges the rules, and what it sends with an alert is what the rule
// says, with this system's address in its links.
func TestPrometheusAgreesAboutEveryRule(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		err = errors.New("no promtool, so the rules are not judged by Prometheus (Debian has it in the package prometheus)")
	}
	without.Need(t, without.Promtool, err)
	folder := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("alerts.rules.yaml", telemetry.RuleFile())
	annotations := annotated(t)
	all := unitTests{RuleFiles: []string{"alerts.rules.yaml"}, Every: telemetry.SampleInterval.String()}
	for _, r := range telemetry.Rules() {
		for _, s := range stories(t, r) {
			all.Tests = append(all.Tests, s.promtool(annotations[r.Name]))
		}
	}
	text, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", write("tests.yaml", text)).CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}

// annotated are the annotations of every rule, as Prometheus expands them where the external label is the address.
func annotated(t *testing.T) map[string]map[string]string {
	t.Helper()
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
	all := make(map[string]map[string]string)
	for _, r := range file.Groups[0].Rules {
		all[r.Alert] = make(map[string]string)
		for name, text := range r.Annotations {
			text = strings.ReplaceAll(text, "{{ with $externalLabels.handoff }}{{ . }}{{ end }}", address)
			if strings.Contains(text, "{{") {
				t.Errorf("the annotation %s of %s has a template that this test can't expand: %s", name, r.Alert, text)
			}
			all[r.Alert][name] = text
		}
	}
	return all
}
