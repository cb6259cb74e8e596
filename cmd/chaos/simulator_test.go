package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The path prefixes of packages that would slow down the build of the simulator.
var heavyPackages = []string{
	"net/http", "crypto/tls", "handoff/chaos/servers", "handoff/core/api", "golang.org/x/tools/",
	"github.com/jackc/pgx/", "github.com/testcontainers/", "github.com/Shopify/toxiproxy/", "github.com/rabbitmq/amqp091-go",
}

func TestSimulatorBuildImportsNoServers(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "simulator", ".")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, "handoff/sim/explore") {
		t.Fatalf("no simulator among %d packages", len(packages))
	}
	for _, p := range packages {
		for _, heavy := range heavyPackages {
			if strings.HasPrefix(p+"/", strings.TrimSuffix(heavy, "/")+"/") {
				t.Errorf("the simulator imports %s; go list -deps -tags simulator -json ./cmd/chaos shows through which package", p)
			}
		}
	}
}

var (
	shownCommand   = regexp.MustCompile(`bin/chaos ([a-z]+)(.*)`)
	commandMissing = regexp.MustCompile(`commandOfWhole\("([a-z]+)"`)
)

func TestReadmeCommandsRunInSimulatorBuild(t *testing.T) {
	source, err := os.ReadFile("simulator.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, m := range commandMissing.FindAllStringSubmatch(string(source), -1) {
		missing = append(missing, m[1])
	}
	if len(missing) == 0 {
		t.Fatal("simulator.go has no command that it leaves out")
	}
	all := commandNames((&app{}).rootCommand())
	shown := shownCommand.FindAllStringSubmatch(string(readme), -1)
	if len(shown) == 0 {
		t.Fatal("README.md shows no command")
	}
	for _, m := range shown {
		if !slices.Contains(all, m[1]) || slices.Contains(missing, m[1]) {
			t.Errorf("README.md shows %q, which the simulator's build lacks", m[0])
		}
		for _, flag := range []string{"--world", "--source", "--database-url"} {
			if strings.Contains(m[2], flag) {
				t.Errorf("README.md shows %q, and the simulator's build lacks %s", m[0], flag)
			}
		}
	}
}
