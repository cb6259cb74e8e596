package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"handoff/chaos/live/cluster"
	"handoff/chaos/live/manual"
	"handoff/scenarios"
)

var binaries string

// Binaries builds the three programs once for all tests, and returns their folder.
var Binaries = sync.OnceValues(func() (string, error) {
	var err error
	if binaries, err = os.MkdirTemp("", "handoff-bin-*"); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", binaries+"/", "./cmd/chaos", "./cmd/executor", "./cmd/worker")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binaries, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binaries != "" {
		_ = os.RemoveAll(binaries)
	}
	os.Exit(code)
}

// The programs accept the commands on the pages. The binaries are built and asked for their help.
func TestProgramsAcceptCommandsOfPages(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binaries")
	}
	bin, err := Binaries()
	if err != nil {
		t.Fatal(err)
	}
	h := &helpTexts{bin: bin, known: map[string]string{}}
	for _, p := range readPages(t) {
		blocks := append(p.codeBlocks("sh"), p.codeBlocks("bash")...)
		for _, s := range p.codeSpans() {
			if strings.HasPrefix(s.text, "make ") || strings.HasPrefix(s.text, "bin/") && strings.Contains(s.text, " ") {
				blocks = append(blocks, s.text)
			}
		}
		for _, words := range shellCommands(strings.Join(blocks, "\n")) {
			if why := h.refusalReason(t, words); why != "" {
				t.Errorf("%s: %s\n  %s", p.path, strings.Join(words, " "), why)
			}
		}
	}
	for _, line := range []string{
		"bin/chaos walk", "bin/chaos run --seed-count 3", "bin/chaos replay no-such-scenario --seed 7", "A=1 bin/executor --listn x # no flag",
		"bin/worker --name w \\\n --parallel 3", "bin/chaos inject --at x 'broker: melt, for: 1s'", "bin/chaos inject --at x 'pause: worker-9, for: 1s'",
		"bin/worker go", "make no-such-target", "HANDOFF_WITHOUT=docker make chaos nothing",
	} {
		if h.refusalReason(t, shellCommands(line)[0]) == "" {
			t.Errorf("%q is not refused: this test misses errors", line)
		}
	}
}

// helpTexts caches the help texts of the binaries.
type helpTexts struct {
	bin   string
	known map[string]string
}

// helpText returns the help text of a program or command; empty if there is none.
func (h *helpTexts) helpText(t *testing.T, words ...string) string {
	t.Helper()
	name := strings.Join(words, " ")
	if _, ok := h.known[name]; !ok {
		out, err := exec.CommandContext(t.Context(), filepath.Join(h.bin, words[0]), append(words[1:], "--help")...).CombinedOutput()
		if h.known[name] = string(out); err != nil {
			h.known[name] = ""
		}
	}
	return h.known[name]
}

var (
	flagName   = regexp.MustCompile(`^-{1,2}[a-z][a-z-]*`)
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
	shellToken = regexp.MustCompile(`(?m)(?:^|[ \t])#.*$|[\n;|&()]+|(?:'[^']*'|"[^"]*"|[^\s;|&()'"])+`)
)

// refusalReason explains why a command is invalid; empty for a valid command and for other programs' commands.
func (h *helpTexts) refusalReason(t *testing.T, words []string) string {
	t.Helper()
	name, ours := strings.CutPrefix(words[0], "bin/")
	rest := words[1:]
	if name == "make" {
		for _, word := range rest {
			if !strings.Contains(word, "=") && !strings.Contains(readText(t, "../Makefile"), "\n"+word+":") {
				return "the Makefile has no target " + word
			}
		}
	}
	if strings.HasPrefix(name, ".ci/") {
		if _, err := os.Stat("../" + name); err != nil {
			return err.Error()
		}
	}
	if !ours || name != "chaos" && name != "executor" && name != "worker" {
		return ""
	}
	help := h.helpText(t, name)
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(rest[0]) + `\b`).MatchString(help) {
			return name + " has no command " + rest[0]
		}
		help = h.helpText(t, name, rest[0])
	}
	if name == "chaos" && len(rest) > 1 {
		switch word := rest[1]; rest[0] {
		case "run", "replay", "shrink":
			placeholder := strings.ContainsAny(word, "/.$") || strings.ToUpper(word) == word
			if _, err := scenarios.Find(word); err != nil && !placeholder && !strings.HasPrefix(word, "-") {
				return err.Error()
			}
		case "inject":
			system := []cluster.Named{{Name: "executor-1"}}
			for i := range 4 {
				system = append(system, cluster.Named{Name: fmt.Sprintf("worker-%d", i+1), Worker: true})
			}
			if _, _, err := manual.Parse(rest[len(rest)-1], system); err != nil && strings.Contains(rest[len(rest)-1], ": ") {
				return err.Error()
			}
		}
	}
	for _, word := range rest {
		if flag := flagName.FindString(word); flag != "" && flag != "--help" && !regexp.MustCompile(`(^|[\s,])`+flag+`([\s=,\[]|$)`).MatchString(help) {
			return fmt.Sprintf("%s has no flag %s", name, flag)
		}
	}
	return ""
}

// shellCommands splits the commands of a shell block into words. It drops comments and leading variables, and
// joins continued lines.
func shellCommands(block string) (commands [][]string) {
	var words []string
	for _, token := range append(shellToken.FindAllString(strings.ReplaceAll(block, "\\\n", " "), -1), "\n") {
		switch word := strings.NewReplacer("'", "", `"`, "").Replace(token); {
		case strings.HasPrefix(strings.TrimSpace(token), "#"):
		case strings.ContainsAny(token[:1], "\n;|&()"):
			if len(words) > 0 {
				commands = append(commands, words)
			}
			words = nil
		case len(words) > 0 || !assignment.MatchString(word) && word != "$" && word != "sudo":
			words = append(words, word)
		}
	}
	return commands
}

// A script that names a test which was renamed would run nothing, and pass.
func TestScriptsNameExistingTests(t *testing.T) {
	var declared []string
	for name, source := range allTexts(t, "", ".go") {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`).FindAllStringSubmatch(source, -1) {
				declared = append(declared, m[1])
			}
		}
	}
	scripts, err := filepath.Glob("../.ci/*")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, script := range append(scripts, "../Makefile", "../.tools/reached/reasons.yaml") {
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(readText(t, script), -1) {
			if !slices.ContainsFunc(declared, func(test string) bool { return strings.HasPrefix(test, name) }) {
				t.Errorf("%s names %s, and there is no such test", script, name)
			}
		}
	}
}
