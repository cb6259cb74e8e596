package compose

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config"
	"handoff/core/host/without"
	"handoff/core/telemetry"
)

// root is the folder of the compose file. The file's paths are relative to it.
const root = "../../.."

// describedService is the part of a compose service that these tests read.
type describedService struct {
	Image           string
	Command         []string
	Environment     map[string]string
	Volumes         []string
	Ports           []string
	StopGracePeriod string   `yaml:"stop_grace_period"`
	DependsOn       []string `yaml:"depends_on"`
}

func describedServices(t *testing.T) map[string]describedService {
	t.Helper()
	var file struct{ Services map[string]describedService }
	readYAML(t, filepath.Join(root, "docker-compose.chaos.yaml"), &file)
	return file.Services
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// A service's stop grace period is at least the longest shutdown that its worker announces at its start.
func TestStopGracePeriodCoversWorkerShutdown(t *testing.T) {
	for _, profile := range []config.Profile{config.Documented, config.Hardened} {
		c := config.Default(profile).Worker
		longest := c.ShutdownTimeout + c.KillGrace + 6*c.StatementTimeout
		for name, s := range describedServices(t) {
			if !strings.HasPrefix(name, "worker-") {
				continue
			}
			grace, err := time.ParseDuration(s.StopGracePeriod)
			if err != nil || grace < longest || grace > time.Minute {
				t.Errorf("%s has stop_grace_period %q (%v); under the profile %s a stop can take %v", name, s.StopGracePeriod, err, profile, longest)
			}
		}
	}
}

// A service mounts only existing files.
func TestMountedFilesExist(t *testing.T) {
	mounts := 0
	for name, s := range describedServices(t) {
		for _, volume := range s.Volumes {
			path, _, _ := strings.Cut(volume, ":")
			mounts++
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s mounts %s: %v", name, path, err)
			}
		}
	}
	if mounts == 0 {
		t.Error("no service mounts anything: the file was not read")
	}
}

// The image's last USER instruction names a numeric user other than 0.
func TestImageDoesNotRunAsRoot(t *testing.T) {
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	last := string(text)[strings.LastIndex(string(text), "\nFROM "):]
	users := regexp.MustCompile(`(?m)^USER (.*)$`).FindAllStringSubmatch(last, -1)
	if len(users) == 0 || !regexp.MustCompile(`^[1-9][0-9]*(:[1-9][0-9]*)?$`).MatchString(users[len(users)-1][1]) {
		t.Errorf("the image's user is %q: want a number other than 0, so that an orchestrator can detect that it is not root", users)
	}
}

// The build context contains every package of the daemons.
func TestBuildContextContainsDaemonPackages(t *testing.T) {
	ignored, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "handoff/cmd/executor", "handoff/cmd/worker").Output()
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{"go.mod": true, "go.sum": true}
	for _, pkg := range strings.Fields(string(out)) {
		if inside, ok := strings.CutPrefix(pkg, "handoff/"); ok {
			folder, _, _ := strings.Cut(inside, "/")
			wanted[folder] = true
		}
	}
	lines := strings.Split(string(ignored), "\n")
	for name := range wanted {
		if !slices.Contains(lines, "!"+name) {
			t.Errorf(".dockerignore excludes %s, which the daemons need, from the image's build", name)
		}
	}
	if len(wanted) < 4 {
		t.Errorf("the daemons need only %v: the list was not read", wanted)
	}
}

// prometheusFile is the part of Prometheus' configuration that the tests read.
type prometheusFile struct {
	Global struct {
		Scrape   string            `yaml:"scrape_interval"`
		Evaluate string            `yaml:"evaluation_interval"`
		Labels   map[string]string `yaml:"external_labels"`
	}
	RuleFiles []string `yaml:"rule_files"`
	Scrape    []struct {
		Static []struct{ Targets []string } `yaml:"static_configs"`
	} `yaml:"scrape_configs"`
}

// Prometheus scrapes every executor and worker of the compose file, on the right port and at the rules'
// interval. It reads the generated rule file.
func TestPrometheusScrapesEveryDaemonAndReadsRules(t *testing.T) {
	services := describedServices(t)
	var file prometheusFile
	readYAML(t, "prometheus.yaml", &file)
	var asked, wanted []string
	for _, job := range file.Scrape {
		for _, static := range job.Static {
			asked = append(asked, static.Targets...)
		}
	}
	for name, s := range services {
		for i, word := range s.Command {
			if word == "--listen" || word == "--health-listen" {
				wanted = append(wanted, strings.Replace(s.Command[i+1], "0.0.0.0", name, 1))
			}
		}
	}
	slices.Sort(asked)
	slices.Sort(wanted)
	if !slices.Equal(asked, wanted) || len(asked) == 0 {
		t.Errorf("Prometheus scrapes %v, and the file's daemons listen at %v", asked, wanted)
	}
	interval := telemetry.SampleInterval.String()
	if file.Global.Scrape != interval || file.Global.Evaluate != interval {
		t.Errorf("scraped every %s and judged every %s; the rules count in samples of %s", file.Global.Scrape, file.Global.Evaluate, interval)
	}
	if file.Global.Labels["handoff"] == "" {
		t.Error("the external label handoff is missing, with which the links of alerts begin")
	}
	s := services["prometheus"]
	const rules = "./core/telemetry/alerts.rules.yaml:/etc/prometheus/alerts.rules.yaml:ro"
	if !slices.Contains(s.Volumes, rules) || !slices.Equal(file.RuleFiles, []string{"alerts.rules.yaml"}) {
		t.Errorf("%v are mounted, and %v is read: want %s", s.Volumes, file.RuleFiles, rules)
	}
	if !slices.Contains(s.Command, "--enable-feature=created-timestamp-zero-ingestion") {
		t.Errorf("%v: without created-timestamp-zero-ingestion, a counter's first events raise no alert", s.Command)
	}
}

// Promtool, which comes with Prometheus, accepts the configuration and the rules.
func TestPromtoolAcceptsConfiguration(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		err = errors.New("no promtool, so Prometheus' configuration is not checked (Debian has it in the package prometheus)")
	}
	without.Need(t, without.Promtool, err)
	folder := t.TempDir()
	for from, to := range map[string]string{"prometheus.yaml": "prometheus.yaml", filepath.Join(root, "core", "telemetry", "alerts.rules.yaml"): "alerts.rules.yaml"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), promtool, "check", "config", filepath.Join(folder, "prometheus.yaml")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("SUCCESS: %d rules found", len(telemetry.Rules()))) {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}

// Only this machine can reach the published ports, and each port can be changed by a variable.
func TestPublishedPortsAreLoopbackOnly(t *testing.T) {
	services := describedServices(t)
	port := regexp.MustCompile(`^127\.0\.0\.1:\$\{HANDOFF_[A-Z]+_PORT:-[0-9]+\}:[0-9]+$`)
	for _, name := range slices.Sorted(maps.Keys(services)) {
		for _, p := range services[name].Ports {
			if !port.MatchString(p) {
				t.Errorf("%s publishes %s", name, p)
			}
		}
	}
}
