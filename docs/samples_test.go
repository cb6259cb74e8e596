package docs

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"handoff/core/config"
)

var (
	commentedKey  = regexp.MustCompile(`(?m)^(\s*)#([a-z_]+:.*)$`)
	headVariable  = regexp.MustCompile(`(?m)^#\s+(HANDOFF_[A-Z_]+=\S+)$`)
	statedDefault = regexp.MustCompile(`(?m)^\s*([a-z_]+): (\S+) # .*\(default ([^)]+)\)`)
)

// Each sample configuration is valid without changes. A line that is uncommented, or has "(default 2m)",
// shows the default. The sample for production has every key, checks certificates, and has no secret.
func TestSampleConfigurationsAreValid(t *testing.T) {
	files, err := filepath.Glob("config/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("docs/config has %v: %v", files, err)
	}
	for _, file := range files {
		source := readText(t, file)
		uncommented := commentedKey.ReplaceAllString(source, "$1$2")
		var environ []string // the variables that the sample's head comment sets
		for _, m := range headVariable.FindAllStringSubmatch(source, -1) {
			environ = append(environ, m[1])
		}
		load := func(source string) *config.Effective {
			e, problems := config.Load(config.Input{File: file, Data: []byte(source), Environ: environ})
			if serving := e.Deployment.ValidateServing(); len(problems)+len(serving) > 0 {
				t.Errorf("%s:\n%v\n%v", file, problems, serving)
			}
			return e
		}
		e := load(source)
		if have, want := printedSettings(t, load(uncommented)), printedSettings(t, e); !slices.Equal(have, want) {
			t.Errorf("%s shows other defaults than those in force:\n%v\n%v", file, have, want)
		}
		standard, set := map[string]string{}, map[string]string{}
		for _, s := range defaultSettings(t, e.Config.Profile) {
			standard[s.key] = s.value
		}
		for _, s := range flattenYAML(t, []byte(source)) {
			set[s.key] = s.value
		}
		for _, m := range statedDefault.FindAllStringSubmatch(source, -1) {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(set)), func(key string) bool {
				return (key == m[1] || strings.HasSuffix(key, "."+m[1])) && set[key] == m[2] && standard[key] == m[3]
			}) {
				t.Errorf("%s gives %s the wrong default %s", file, m[1], m[3])
			}
		}
		for key, value := range set {
			if value == standard[key] && key != "profile" && !strings.Contains(source, ": "+value+" # (default "+value+")") {
				t.Errorf("%s sets %s to its default %s: comment it out, or mark it as the default", file, key, value)
			}
		}
		if file != "config/production.yaml" {
			continue
		}
		var have []string
		for _, s := range flattenYAML(t, []byte(uncommented)) {
			have = append(have, s.key)
		}
		if want := configurationKeys(t); !slices.Equal(have, want) {
			t.Errorf("%s lacks the keys of --print-config in order:\n%q\n%q", file, have, want)
		}
		for _, secret := range []string{"database.url", "message_queue.rabbitmq.url", "api.token", "api.tokens"} {
			if set[secret] != "" {
				t.Errorf("%s sets %s", file, secret)
			}
		}
		d := e.Deployment
		if !strings.Contains(d.Database.URL, "sslmode=verify-full") || !strings.HasPrefix(d.MessageQueue.RabbitMQ.URL, "amqps://") || d.API.Token == "" ||
			d.Worker.HealthListen == "" || e.Config.MessageQueue.RabbitMQ.QueueType != "quorum" {
			t.Errorf("%s lacks checked certificates, a token, the health endpoints or quorum queues", file)
		}
	}
}
