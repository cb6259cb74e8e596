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

	"go.yaml.in/yaml/v4"

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

// What pages tell people to type, the programs take. The binaries are built and asked for their help.
func TestCommands(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binaries")
	}
	bin, err := Binaries()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("commands", func(t *testing.T) {
		h := &helps{bin: bin, known: map[string]string{}}
		for _, p := range readPages(t) {
			blocks := append(p.blocks("sh"), p.blocks("bash")...)
			for _, s := range p.spans() {
				if strings.HasPrefix(s.text, "make ") || strings.HasPrefix(s.text, "bin/") && strings.Contains(s.text, " ") {
					blocks = append(blocks, s.text)
				}
			}
			for _, block := range blocks {
				for _, words := range shellCommands(block) {
					if why := h.refuse(t, words); why != "" {
						t.Errorf("%s: %s\n  %s", p.path, strings.Join(words, " "), why)
					}
				}
			}
		}
	})
	t.Run("commands that are wrong", func(t *testing.T) {
		h := &helps{bin: bin, known: map[string]string{}}
		for _, line := range []string{
			"bin/chaos walk", "bin/chaos run --seed-count 3", "bin/chaos replay no-such-scenario --seed 7", "bin/executor --listn x",
			"bin/worker --name w --parallel 3", "bin/chaos inject --at x 'broker: melt, for: 1s'", "bin/chaos inject --at x 'pause: worker-9, for: 1s'",
			"bin/chaos inject --at x 'broker: alarm, for: 1s'", "bin/worker go", "make no-such-target", "HANDOFF_WITHOUT=docker make chaos nothing",
		} {
			if h.refuse(t, shellCommands(line)[0]) == "" {
				t.Errorf("%q is not refused", line)
			}
		}
	})
}

// helps are the help texts of the binaries.
type helps struct {
	bin   string
	known map[string]string
}

func (h *helps) text(t *testing.T, words ...string) string {
	t.Helper()
	name := strings.Join(words, " ")
	if text, ok := h.known[name]; ok {
		return text
	}
	ask := exec.CommandContext(t.Context(), filepath.Join(h.bin, words[0]), append(words[1:], "--help")...)
	out, err := ask.CombinedOutput()
	text := string(out)
	if err != nil {
		text = ""
	}
	h.known[name] = text
	return text
}

var (
	shortOrLong = regexp.MustCompile(`^-{1,2}[a-z][a-z-]*`)
	makeTarget  = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// refuse says why a command can't be meant as it stands; empty for one that can, or that is not ours.
func (h *helps) refuse(t *testing.T, words []string) string {
	t.Helper()
	program, rest := words[0], words[1:]
	switch program {
	case "make":
		targets := makeTarget.FindAllStringSubmatch(read(t, "../Makefile"), -1)
		for _, word := range rest {
			if !strings.Contains(word, "=") && !slices.ContainsFunc(targets, func(m []string) bool { return m[1] == word }) {
				return "the Makefile has no target " + word
			}
		}
		return ""
	case "bin/chaos", "bin/executor", "bin/worker":
	default:
		return ""
	}
	name := strings.TrimPrefix(program, "bin/")
	help := h.text(t, name)
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		if !regexp.MustCompile(`(?m)\b` + regexp.QuoteMeta(rest[0]) + `\b`).MatchString(help) {
			return name + " has no command " + rest[0]
		}
		own := h.text(t, name, rest[0])
		if name == "chaos" {
			help = own
		} else {
			help += own
		}
		if name == "chaos" && (rest[0] == "run" || rest[0] == "replay" || rest[0] == "shrink") && len(rest) > 1 {
			if why := refuseScenario(rest[1]); why != "" {
				return why
			}
		}
	}
	if name == "chaos" && len(rest) > 1 && rest[0] == "inject" {
		if why := refuseFault(rest[len(rest)-1]); why != "" {
			return why
		}
	}
	for _, word := range rest {
		flag := shortOrLong.FindString(word)
		if flag != "" && flag != "--help" && !regexp.MustCompile(`(^|[\s,])`+flag+`([\s=,\[]|$)`).MatchString(help) {
			return fmt.Sprintf("%s has no flag %s", name, flag)
		}
	}
	return ""
}

// refuseScenario says that a word is no scenario: neither a flag, nor a file, nor one of the library.
func refuseScenario(word string) string {
	if strings.HasPrefix(word, "-") || strings.ContainsAny(word, "/.$") || strings.ToUpper(word) == word {
		return ""
	}
	if _, err := scenarios.Find(word); err != nil {
		return "the library has no scenario " + word
	}
	return ""
}

// refuseFault says that a word is no fault that can be injected by hand into the system of the pages.
func refuseFault(word string) string {
	if !strings.Contains(word, ": ") {
		return ""
	}
	system := []cluster.Named{{Name: "executor-1"}}
	for i := range 4 {
		system = append(system, cluster.Named{Name: fmt.Sprintf("worker-%d", i+1), Worker: true})
	}
	if _, _, err := manual.Parse(word, system); err != nil {
		return err.Error()
	}
	return ""
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// shellCommands are the commands of a shell block, as words: without comments, continued lines joined, without
// variables that are set before them.
func shellCommands(block string) (commands [][]string) {
	var words []string
	end := func() {
		for len(words) > 0 && (assignment.MatchString(words[0]) || words[0] == "$" || words[0] == "sudo") {
			words = words[1:]
		}
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	var word strings.Builder
	quote, begun := byte(0), false
	finish := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	block = strings.ReplaceAll(block, "\\\n", " ")
	for i := 0; i < len(block); i++ {
		c := block[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && c == '#' && !begun:
			for i+1 < len(block) && block[i+1] != '\n' {
				i++
			}
		case quote == 0 && strings.IndexByte("\n;|&()", c) >= 0:
			finish()
			end()
		case quote == 0 && (c == ' ' || c == '\t'):
			finish()
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	finish()
	end()
	return commands
}

// requestSpan is a request in a code span, with or without its method.
var requestSpan = regexp.MustCompile(`^(?:(GET|POST|PUT|DELETE|PATCH) )?(/(?:api/v1/|healthz|readyz|metrics)[^\s?]*)`)

// Requests that pages name are those that the API answers.
func TestRequestsExist(t *testing.T) {
	var document struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "../core/api/openapi.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	for _, p := range readPages(t) {
		for _, s := range p.spans() {
			m := requestSpan.FindStringSubmatch(s.text)
			if m == nil {
				continue
			}
			answered := false
			for path, item := range document.Paths {
				pattern := regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `(\{\w+\}|[A-Za-z0-9_.:-]+)`)
				if regexp.MustCompile("^" + pattern + "$").MatchString(m[2]) {
					answered = answered || m[1] == "" || item[strings.ToLower(m[1])] != nil
				}
			}
			if !answered {
				t.Errorf("%s names the request %s, which core/api/openapi.yaml does not have", s.place, s.text)
			}
		}
	}
}
