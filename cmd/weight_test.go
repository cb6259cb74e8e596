// Package cmd_test limits which modules the daemons link and how large their binaries are.
package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modules lists every module that a daemon may link besides this module and the standard library, with its
// purpose. Adding a module is a decision that is made here.
var modules = map[string]string{
	"github.com/benbjohnson/clock":   "the daemon host's clock",
	"github.com/jackc/pgx/v5":        "PostgreSQL",
	"github.com/jackc/pgpassfile":    "of pgx: .pgpass",
	"github.com/jackc/pgservicefile": "of pgx: pg_service.conf",
	"github.com/jackc/puddle/v2":     "of pgx: the pool",
	"github.com/rabbitmq/amqp091-go": "RabbitMQ",

	"github.com/prometheus/client_golang": "/metrics",
	"github.com/prometheus/client_model":  "of client_golang: the figures",
	"github.com/prometheus/common":        "of client_golang: the text format",
	"github.com/prometheus/procfs":        "of client_golang: the process's own figures",
	"github.com/beorn7/perks":             "of client_golang: quantiles",
	"github.com/cespare/xxhash/v2":        "of client_golang: hashes of labels",
	"github.com/klauspost/compress":       "of client_golang: compressed answers",
	"github.com/munnerz/goautoneg":        "of client_golang: the Accept header",
	"google.golang.org/protobuf":          "of client_model",

	"github.com/spf13/pflag": "flags",
	"go.yaml.in/yaml/v4":     "configuration and action files",
	"golang.org/x/sync":      "of puddle: a semaphore",
	"golang.org/x/sys":       "process groups and the shim",
	"golang.org/x/text":      "of pgx: preparing passwords (SASLprep)",

	"github.com/go-json-experiment/json": "the bodies of requests, read as a stream with positions; not in the daemons: the lines of a history, which are millions",
}

// most is the largest allowed size of a daemon, as shipped: without symbols. The daemons have 17 MB: mostly
// the runtime, TLS, HTTP, the two clients and the Prometheus client (5 MB). A container client would add 12
// MB and so be detected, while ordinary growth of a fifth is allowed.
const most = 20 << 20

func TestDaemonsLinkOnlyAllowedModules(t *testing.T) {
	for _, daemon := range []string{"executor", "worker"} {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Module.Path}}{{end}}", "handoff/cmd/"+daemon).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		linked := 0
		for line := range strings.Lines(string(out)) {
			path, module, _ := strings.Cut(strings.TrimSpace(line), " ")
			if path == "" {
				continue
			}
			linked++
			if module == "handoff" {
				own := slices.ContainsFunc([]string{"handoff/core/", "handoff/migrations", "handoff/docs", "handoff/cmd/" + daemon}, func(prefix string) bool {
					return strings.HasPrefix(path, prefix)
				})
				if !own || strings.HasSuffix(path, "test") {
					t.Errorf("%s links %s: a daemon is core, migrations, the playbooks and nothing else of this module", daemon, path)
				}
				continue
			}
			if modules[module] == "" {
				t.Errorf("%s links %s of module %s, which is not among those it may", daemon, path, module)
			}
		}
		if linked < 20 {
			t.Errorf("only %d packages of %s were looked at", linked, daemon)
		}
	}
}

func TestDaemonBinariesStaySmall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds both daemons")
	}
	dir := t.TempDir()
	for _, daemon := range []string{"executor", "worker"} {
		path := filepath.Join(dir, daemon)
		if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "handoff/cmd/"+daemon).CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f MB", daemon, float64(info.Size())/(1<<20))
		if info.Size() > most {
			t.Errorf("%s has %d bytes, at most %d are expected", daemon, info.Size(), most)
		}
		// The binary itself lists the modules that it contains.
		out, err := exec.Command("go", "version", "-m", path).Output()
		if err != nil {
			t.Fatalf("go version -m: %v", err)
		}
		for line := range strings.Lines(string(out)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "dep" && modules[fields[1]] == "" {
				t.Errorf("%s contains module %s", daemon, fields[1])
			}
		}
	}
}
