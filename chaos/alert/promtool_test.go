package alert

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/host/without"
	"handoff/core/telemetry"
)

// story holds the input of one rule, sample by sample, and the samples at which its alert must fire or not.
type story struct {
	name string
	rule telemetry.Rule
	// absent reports whether the rule fires because no process reports its figure.
	absent bool
	series []*told
	// looks holds the samples at which the evaluator and Prometheus must agree.
	looks []look
}

// told is one input series: a gauge's values, a counter's growth in each sample, or a histogram's
// measurements (their number, and the seconds that each took).
type told struct {
	figure         telemetry.Figure
	labels         telemetry.Labels
	values, counts []int64
}

// silence stands for a missing sample: no process reports the gauge.
const silence = -1

type look struct {
	sample int
	firing bool
}

// stories returns two stories for a rule. In the first, its value goes from exactly the limit to one above
// it and back. The second is for percentages and means that need a minimum number of samples: there the value
// exceeds the limit, but with one sample too few.
func stories(r telemetry.Rule, written fileRule) []*story {
	whole := &story{name: r.Name, rule: r, absent: strings.HasPrefix(written.Expr, "absent(")}
	quiet, loud := whole.levels()
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
	switch kind(&r.Of) {
	case telemetry.Counter:
		few.tell(0, 0)
		few.tell(r.Samples-1, r.Samples-1)
		few.tell(0, 0)
	case telemetry.Histogram:
		few.tell(0, 0)
		few.tell(10*r.Above, r.Samples-1)
		few.tell(0, 0)
	default:
		for range r.Samples - 1 {
			few.tell(perSample, perSample)
		}
	}
	few.looks = []look{{len(few.series[0].values) - 1, false}}
	return []*story{whole, few}
}

// perSample is the base of a percentage, or the number of measurements of a mean, in each sample.
const perSample = 100

// levels returns the value per sample that puts the rule exactly at its limit, and one beyond it.
func (s *story) levels() (quiet, loud int64) {
	r := &s.rule
	switch {
	case s.absent:
		return 0, silence
	case r.Zero:
		return 1, 0
	case r.Per == nil && kind(&r.Of) == telemetry.Counter:
		each := r.Above / int64(r.Of.Window/telemetry.SampleInterval)
		return each, each + 1
	default:
		return r.Above, r.Above + 1
	}
}

func kind(q *telemetry.Query) telemetry.Kind { return telemetry.Table()[q.Figure].Kind }

// tell adds a sample: of is the value, and per the base of a percentage. For a histogram, of is the
// duration of each of per measurements.
func (s *story) tell(of, per int64) {
	if s.series == nil {
		s.series = append(s.series, &told{figure: s.rule.Of.Figure, labels: selected(&s.rule.Of, nil)})
		if p := s.rule.Per; p != nil {
			s.series = append(s.series, &told{figure: p.Figure, labels: selected(p, &s.rule.Of)})
		}
	}
	first := s.series[0]
	first.values, first.counts = append(first.values, of), append(first.counts, per)
	if p := s.rule.Per; p != nil {
		if p.Figure == first.figure && p.Matches(first.labels) {
			per -= of // of is part of the base, too
		}
		s.series[1].values = append(s.series[1].values, per)
	}
}

// selected returns labels that match the query q but, unless not is nil, don't match not.
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

// judged replays the story to an evaluator and returns what it says at the story's looks.
func (s *story) judged() (all []look) {
	b := NewEvaluator()
	r := b.Process("executor-1")
	for i := range s.series[0].values {
		for _, one := range s.series {
			one.report(b, r, i)
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

// report reports sample i of the series.
func (t *told) report(b *Evaluator, r telemetry.Recorder, i int) {
	v := t.values[i]
	info := telemetry.Table()[t.figure]
	switch {
	case info.Kind == telemetry.Counter:
		r.Add(t.figure, v, t.labels)
	case info.Kind == telemetry.Histogram:
		for range t.counts[i] {
			r.Observe(t.figure, time.Duration(v)*time.Second, t.labels)
		}
	case v == silence:
		b.Ended("executor-1")
	case info.Seconds:
		r.Set(t.figure, v*int64(time.Second), t.labels)
	default:
		r.Set(t.figure, v, t.labels)
	}
}

// fileRule is the part of a rule file that these tests read.
type fileRule struct {
	Alert, Expr string
	Annotations map[string]string
}

// ruleFile returns the rules of the rule file, by alert.
func ruleFile(t *testing.T) map[string]fileRule {
	t.Helper()
	var f struct {
		Groups []struct{ Rules []fileRule }
	}
	if err := yaml.Unmarshal(telemetry.RuleFile(), &f); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]fileRule)
	for _, r := range f.Groups[0].Rules {
		all[r.Alert] = r
	}
	return all
}

// The harness's evaluator fires at one above each rule's limit, and not at the limit.
func TestRulesFireOnlyBeyondTheirLimit(t *testing.T) {
	written := ruleFile(t)
	for _, r := range telemetry.Rules() {
		for _, s := range stories(r, written[r.Name]) {
			if got := s.judged(); fmt.Sprint(got) != fmt.Sprint(s.looks) {
				t.Errorf("%s: judged %v, want %v", s.name, got, s.looks)
			}
		}
	}
}

// The following types are the file format of promtool's unit tests.
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

// address is the external label that starts every link in an annotation.
const address = "https://handoff.example"

// promtool returns the story as a unit test for promtool.
func (s *story) promtool(annotations map[string]string) unitTest {
	test := unitTest{Name: s.name, Interval: telemetry.SampleInterval.String(), ExternalLabels: map[string]string{"handoff": address}}
	for _, one := range s.series {
		info := telemetry.Table()[one.figure]
		labels := []string{`instance="executor-1"`}
		for i, name := range info.Labels {
			labels = append(labels, fmt.Sprintf("%s=%q", name, one.labels[i]))
		}
		selector := "{" + strings.Join(labels, ",") + "}"
		switch info.Kind {
		case telemetry.Counter:
			test.Series = append(test.Series, inputSeries{info.Name + selector, sums(one.values, nil)})
		case telemetry.Histogram:
			test.Series = append(test.Series, inputSeries{info.Name + "_sum" + selector, sums(one.values, one.counts)},
				inputSeries{info.Name + "_count" + selector, sums(one.counts, nil)})
		default:
			test.Series = append(test.Series, inputSeries{info.Name + selector, spelled(one.values)})
		}
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

// spelled formats values in promtool's notation.
func spelled(values []int64) string {
	var all []string
	for _, v := range values {
		if v == silence {
			all = append(all, "stale")
		} else {
			all = append(all, fmt.Sprint(v))
		}
	}
	return strings.Join(all, " ")
}

// sums returns a counter's values in promtool's notation. The counter grows by each, multiplied by times if
// any.
func sums(each, times []int64) string {
	var all []int64
	sum := int64(0)
	for i, v := range each {
		if times != nil {
			v *= times[i]
		}
		sum += v
		all = append(all, sum)
	}
	return spelled(all)
}

// Prometheus' alerts fire exactly when the harness's do, and have the rule's annotations, with this system's
// address in their links.
func TestPrometheusAgreesOnEveryRule(t *testing.T) {
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
	written := ruleFile(t)
	all := unitTests{RuleFiles: []string{"alerts.rules.yaml"}, Every: telemetry.SampleInterval.String()}
	for _, r := range telemetry.Rules() {
		for _, s := range stories(r, written[r.Name]) {
			_, loud := s.levels()
			all.Tests = append(all.Tests, s.promtool(expanded(t, written[r.Name], loud)))
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

// humanize writes whole seconds of less than an hour as Prometheus' humanizeDuration does.
func humanize(seconds int64) string {
	if seconds < 60 {
		return fmt.Sprintf("%ds", seconds)
	}
	return fmt.Sprintf("%dm %ds", seconds/60, seconds%60)
}

// expanded returns a rule's annotations as Prometheus expands them, if the external label is the address
// and the rule's value makes the alert fire.
func expanded(t *testing.T, r fileRule, value int64) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for name, text := range r.Annotations {
		// Prometheus defines these variables in the same way.
		parsed, err := template.New(name).Funcs(template.FuncMap{"humanizeDuration": humanize}).Parse("{{ $externalLabels := .Labels }}{{ $value := .Value }}" + text)
		var out strings.Builder
		if err == nil {
			err = parsed.Execute(&out, map[string]any{"Labels": map[string]string{"handoff": address}, "Value": value})
		}
		if err != nil {
			t.Errorf("the annotation %s of %s: %v", name, r.Alert, err)
		}
		all[name] = out.String()
	}
	return all
}
