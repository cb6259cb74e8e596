// Package workflow_test holds the workflows of .github and docs/deploy against the repository: what they run has to be
// there. Whether those of .github are workflows at all is actionlint's business (make lint).
package workflow_test

import (
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

const root = "../.."

// step is one step of the workflow, with the job in which it stands.
type step struct {
	job, name string
	// run is its script, uses the action in its place, with its inputs.
	run, uses string
	with      map[string]string
	env       []string
}

// files are the workflows of this repository, and those that docs/deploy offers to be copied.
func files(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{filepath.Join(".github", "workflows", "*.yaml"), filepath.Join("docs", "deploy", "github-*.yaml")} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no workflow is called %s: %v", pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

// read returns every step of every workflow.
func read(t *testing.T) (steps []step, jobs []*actionlint.Job) {
	t.Helper()
	for _, file := range files(t) {
		w, bad := actionlint.Parse([]byte(text(t, file)))
		if len(bad) > 0 {
			t.Fatalf("%s: %v", file, bad)
		}
		for id, j := range w.Jobs {
			jobs = append(jobs, j)
			for _, s := range j.Steps {
				steps = append(steps, described(id, j, s))
			}
		}
	}
	return steps, jobs
}

func described(job string, j *actionlint.Job, s *actionlint.Step) step {
	out := step{job: job, with: make(map[string]string)}
	if s.Name != nil {
		out.name = s.Name.Value
	}
	for _, env := range []*actionlint.Env{j.Env, s.Env} {
		if env != nil {
			for _, v := range env.Vars {
				out.env = append(out.env, v.Name.Value)
			}
		}
	}
	switch exec := s.Exec.(type) {
	case *actionlint.ExecRun:
		out.run = exec.Run.Value
	case *actionlint.ExecAction:
		out.uses = exec.Uses.Value
		for name, input := range exec.Inputs {
			out.with[name] = input.Value.Value
		}
	}
	return out
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var makes = regexp.MustCompile(`(?m)\bmake ([a-z][a-z -]*)`)

func TestWhatTheWorkflowMakesIsATarget(t *testing.T) {
	steps, _ := read(t)
	found := 0
	for _, s := range steps {
		for _, m := range makes.FindAllStringSubmatch(s.run, -1) {
			for _, target := range strings.Fields(m[1]) {
				found++
				if out, err := dryRun(t.Context(), target); err != nil {
					t.Errorf("%s, %s: make %s: %v\n%s", s.job, s.name, target, err, out)
				}
			}
		}
	}
	if found == 0 {
		t.Error("the workflow makes nothing: it was not read")
	}
}

func dryRun(ctx context.Context, target string) (string, error) {
	cmd := exec.CommandContext(ctx, "make", "--dry-run", target)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestWhatTheWorkflowRunsIsThere(t *testing.T) {
	steps, _ := read(t)
	scripts := 0
	for _, s := range steps {
		for _, word := range strings.Fields(s.run) {
			if !strings.HasPrefix(word, ".ci/") {
				continue
			}
			scripts++
			if info, err := os.Stat(filepath.Join(root, word)); err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s, %s: %s can't be run: %v", s.job, s.name, word, err)
			}
		}
		if file := s.with["go-version-file"]; file != "" {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s, %s: %v", s.job, s.name, err)
			}
		}
		for _, quoted := range regexp.MustCompile(`hashFiles\(([^)]*)\)`).FindAllStringSubmatch(s.with["key"], -1) {
			for _, file := range strings.Split(quoted[1], ",") {
				if _, err := os.Stat(filepath.Join(root, strings.Trim(file, " '"))); err != nil {
					t.Errorf("%s: the key of a cache: %v", s.job, err)
				}
			}
		}
	}
	if scripts == 0 {
		t.Error("nothing runs .ci/run")
	}
}

// What is kept or shown is written by something: its folder, and its name unless every report has it, are named in the
// Makefile or in a script of .ci.
func TestWhatTheWorkflowKeepsIsWritten(t *testing.T) {
	steps, _ := read(t)
	makefile := text(t, filepath.Join(root, "Makefile"))
	scripts, _ := filepath.Glob(filepath.Join(root, ".ci", "*"))
	for _, script := range scripts {
		makefile += strings.NewReplacer("$out", "reports/out/determinism", `reports/out/live-$1`, "reports/out/live-order").Replace(text(t, script))
	}
	report := regexp.MustCompile(`reports/out[a-z0-9/.-]*`)
	found := 0
	for _, s := range steps {
		for _, path := range report.FindAllString(s.run+"\n"+s.with["path"], -1) {
			found++
			folder := path
			if name := filepath.Base(path); strings.Contains(name, ".") {
				folder = filepath.Dir(path)
				if name != "junit.xml" && name != "summary.md" && !strings.Contains(makefile, name) {
					t.Errorf("%s, %s: nothing writes %s", s.job, s.name, path)
				}
			}
			if !regexp.MustCompile(regexp.QuoteMeta(folder) + `(\s|["/]|$)`).MatchString(makefile) {
				t.Errorf("%s, %s: neither the Makefile nor .ci writes into %s", s.job, s.name, folder)
			}
		}
	}
	if found == 0 {
		t.Error("no report is kept: the workflow was not read")
	}
}

// The variables that are set are known to somebody.
func TestTheWorkflowsVariablesAreRead(t *testing.T) {
	steps, _ := read(t)
	for _, s := range steps {
		for _, name := range s.env {
			name = strings.ToUpper(name)
			if !strings.HasPrefix(name, "HANDOFF_") {
				continue
			}
			out, err := exec.CommandContext(t.Context(), "grep", "-rlE", "--include=*.go", "--exclude=*_test.go", `"`+name+`"`, root+"/chaos", root+"/core", root+"/cmd").CombinedOutput()
			if err != nil || len(out) == 0 {
				t.Errorf("%s, %s sets %s, which nothing reads", s.job, s.name, name)
			}
		}
	}
}

// Containers have the Go that go.mod asks for.
func TestContainersHaveTheGoOfTheModule(t *testing.T) {
	_, jobs := read(t)
	version := regexp.MustCompile(`(?m)^go ([0-9]+\.[0-9]+)`).FindStringSubmatch(text(t, filepath.Join(root, "go.mod")))[1]
	for _, j := range jobs {
		if j.Container != nil && !strings.HasPrefix(j.Container.Image.Value, "golang:"+version+"-") {
			t.Errorf("%s runs in %s; go.mod asks for Go %s", j.Name.Value, j.Container.Image.Value, version)
		}
	}
}

// Every machine that makes hashes is compared with the others.
func TestEveryMachinesHashesAreCompared(t *testing.T) {
	steps, jobs := read(t)
	var machines []string
	for _, j := range jobs {
		if j.Strategy == nil || j.Strategy.Matrix == nil || j.Strategy.Matrix.Rows["os"] == nil {
			continue
		}
		for _, v := range j.Strategy.Matrix.Rows["os"].Values {
			machines = append(machines, strings.Trim(v.String(), `"`))
		}
	}
	compare := slices.IndexFunc(steps, func(s step) bool { return s.job == "same-everywhere" && strings.Contains(s.run, "diff") })
	if compare < 0 || len(machines) < 2 {
		t.Fatalf("%d machines make hashes, and no step of the job same-everywhere compares them", len(machines))
	}
	for _, os := range machines {
		if !strings.Contains(steps[compare].run, os) {
			t.Errorf("the hashes of %s are compared with nothing:\n%s", os, steps[compare].run)
		}
	}
}

// What is offered to be copied is checked as if it had been.
func TestTheOfferedWorkflowsPassTheLinter(t *testing.T) {
	for _, file := range files(t) {
		if filepath.Base(filepath.Dir(file)) != "deploy" {
			continue
		}
		linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found, err := linter.Lint(file, []byte(text(t, file)), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			t.Error(e)
		}
		// It would find something.
		broken := strings.Replace(text(t, file), "needs: [share, mutants]", "needs: [shares, mutants]", 1)
		if found, err := linter.Lint(file, []byte(broken), nil); err != nil || len(found) == 0 {
			t.Errorf("%s: a job that is not there is not found: %v", file, err)
		}
	}
}

// Every share that a machine makes is brought to the machine that merges, and nothing else.
func TestTheSharesOfAMatrixAreMerged(t *testing.T) {
	steps, jobs := read(t)
	kept, brought := make(map[string]bool), make(map[string]bool)
	for _, s := range steps {
		name, _, shared := strings.Cut(s.with["name"], "-${{ matrix.share }}")
		switch {
		case strings.HasPrefix(s.uses, "actions/upload-artifact@") && shared:
			kept[name] = true
		case strings.HasPrefix(s.uses, "actions/download-artifact@") && s.job == "merge":
			brought[strings.TrimSuffix(s.with["pattern"], "-*")] = true
		}
	}
	if len(kept) != 3 || !maps.Equal(kept, brought) {
		t.Errorf("kept are %v, brought together %v", kept, brought)
	}
	for _, j := range jobs {
		if j.Strategy == nil || j.Strategy.Matrix == nil || j.Strategy.Matrix.Rows["share"] == nil {
			continue
		}
		if j.Strategy.FailFast == nil || j.Strategy.FailFast.Value {
			t.Errorf("%s: the first share that fails would end the others", j.Name.Value)
		}
		for i, v := range j.Strategy.Matrix.Rows["share"].Values {
			if v.String() != strconv.Itoa(i+1) && strings.Trim(v.String(), `"`) != strconv.Itoa(i+1) {
				t.Errorf("%s: share %d is called %s", j.Name.Value, i+1, v)
			}
		}
	}
}
