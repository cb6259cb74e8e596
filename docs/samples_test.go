package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"handoff/core/config"
)

// sample is a sample configuration.
type sample struct {
	name   string
	source []byte
	// environ are the variables that its head tells people to set.
	environ []string
}

var (
	commentedKey  = regexp.MustCompile(`(?m)^(\s*)#([a-z_]+:.*)$`)
	headVariable  = regexp.MustCompile(`(?m)^#\s+(HANDOFF_[A-Z_]+=\S+)$`)
	statedDefault = regexp.MustCompile(`^\s*([a-z_]+): (\S+) # .*\(default ([^)]+)\)`)
)

func samples(t *testing.T) (all []sample) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("config", "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("docs/config has %v: %v", files, err)
	}
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s := sample{name: "docs/" + filepath.ToSlash(f), source: source}
		for _, m := range headVariable.FindAllStringSubmatch(string(source), -1) {
			s.environ = append(s.environ, m[1])
		}
		all = append(all, s)
	}
	return all
}

// uncommented is the sample with the defaults that it shows put into force.
func (s *sample) uncommented() []byte { return commentedKey.ReplaceAll(s.source, []byte("$1$2")) }

func (s *sample) load(t *testing.T, source []byte) *config.Effective {
	t.Helper()
	e, problems := config.Load(config.Input{File: s.name, Data: source, Environ: s.environ})
	if len(problems) > 0 {
		t.Errorf("%s:\n%v", s.name, problems)
	}
	if problems := e.Deployment.ValidateServing(); len(problems) > 0 {
		t.Errorf("no executor starts with %s: %v", s.name, problems)
	}
	return e
}

// A sample can be used as it is, and a line that is uncommented changes nothing.
func TestSamplesLoad(t *testing.T) {
	for _, s := range samples(t) {
		asItIs := settings(t, s.load(t, s.source))
		withDefaults := settings(t, s.load(t, s.uncommented()))
		for i := range asItIs {
			// What comes from the environment is not shown in the file.
			if asItIs[i] != withDefaults[i] {
				t.Errorf("%s shows %s: %s as the default, which is %s", s.name, withDefaults[i].key, withDefaults[i].value, asItIs[i].value)
			}
		}
	}
}

// "(default 2m)" is true.
func TestSamplesStateDefaults(t *testing.T) {
	for _, s := range samples(t) {
		standard := map[string]string{}
		for _, d := range defaults(t, s.load(t, s.source).Config.Profile) {
			standard[d.key] = d.value
		}
		set := map[string]string{}
		for _, d := range flatten(t, s.source) {
			set[d.key] = d.value
		}
		for line := range strings.Lines(string(s.source)) {
			m := statedDefault.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			found := false
			for k, v := range set {
				if (k == m[1] || strings.HasSuffix(k, "."+m[1])) && v == m[2] {
					found = found || standard[k] == m[3]
				}
			}
			if !found {
				t.Errorf("%s says that %s has the default %s", s.name, m[1], m[3])
			}
		}
		for key, value := range set {
			if value == standard[key] && key != "profile" && !strings.Contains(string(s.source), ": "+value+" # (default "+value+")") {
				t.Errorf("%s sets %s to its default %s: comment it out, or say that it is the default", s.name, key, value)
			}
		}
	}
}

// The sample for production has every key, checks certificates, and holds no secret: a password in a file that is copied to
// every machine is a password that is known.
func TestProductionSample(t *testing.T) {
	for _, s := range samples(t) {
		if filepath.Base(s.name) != "production.yaml" {
			continue
		}
		var have []string
		for _, d := range flatten(t, s.uncommented()) {
			have = append(have, d.key)
		}
		if want := configurationKeys(t); !slices.Equal(have, want) {
			t.Errorf("%s has not the keys of --print-config in their order:\n%q\n%q", s.name, have, want)
		}
		for _, d := range flatten(t, s.source) {
			if slices.Contains([]string{"database.url", "message_queue.rabbitmq.url", "api.token", "api.tokens"}, d.key) {
				t.Errorf("%s sets %s", s.name, d.key)
			}
		}
		e := s.load(t, s.source)
		if url := e.Deployment.Database.URL; !strings.Contains(url, "sslmode=verify-full") {
			t.Errorf("%s: the database is not checked: %s", s.name, url)
		}
		if url := e.Deployment.MessageQueue.RabbitMQ.URL; !strings.HasPrefix(url, "amqps://") {
			t.Errorf("%s: the broker is reached without TLS: %s", s.name, url)
		}
		if e.Deployment.API.Token == "" || e.Deployment.Worker.HealthListen == "" || e.Config.MessageQueue.RabbitMQ.QueueType != "quorum" {
			t.Errorf("%s lacks a token, the health endpoints or quorum queues", s.name)
		}
	}
}
