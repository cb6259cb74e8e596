package source

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the expected candidates anew")

const small = "chaos/selftest/mutant/source/testdata/small"

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func loadSmall(t *testing.T) *Catalog {
	t.Helper()
	c, err := loadScopes(root(t), []scope{{dir: small}}, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryOperatorFindsCandidates(t *testing.T) {
	c := loadSmall(t)
	var b strings.Builder
	found := map[string]bool{}
	for _, m := range c.Candidates {
		fmt.Fprintln(&b, strings.TrimPrefix(m.ID, small+"/"), m.What)
		found[m.Operator] = true
	}
	for _, o := range Operators() {
		if !o.SQL && !found[o.Name] {
			t.Errorf("the operator %s finds nothing", o.Name)
		}
	}
	golden := filepath.Join("testdata", "small.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the candidates are not those of %s; if that is meant, go test ./chaos/selftest/mutant/source -update; found:\n%s", golden, b.String())
	}
	if c.LeftOut["a text for readers (String, Error, LogValue)"] != 1 {
		t.Errorf("left out: %v; want the String method", c.LeftOut)
	}
}

func TestOverlayBuildsAllMutants(t *testing.T) {
	c := loadSmall(t)
	dir := t.TempDir()
	overlay, err := c.Overlay(dir, c.Candidates)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "small")
	build := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "./"+small)
	build.Dir = root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building with every mutant: %v\n%s", err, out)
	}
	says := func(n int) string {
		cmd := exec.Command(bin)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", Variable, n))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("mutant %d: %v\n%s", n, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	number := func(id string) int {
		at := slices.IndexFunc(c.Candidates, func(m *Candidate) bool { return strings.HasSuffix(m.ID, id) })
		if at < 0 {
			t.Fatalf("no candidate %s", id)
		}
		return at + 1
	}
	if got := says(0); got != "false true 3" {
		t.Errorf("the original says %q", got)
	}
	if got := says(number("(*box).add:comparisons:3")); got != "false false 3" {
		t.Errorf("with > replaced by >= it says %q", got)
	}
	if got := says(number("(*box).add:results:1")); got != "true true 3" {
		t.Errorf("with false replaced by true it says %q", got)
	}
	if got := says(number("largest:comparisons:2")); got != "false true 0" {
		t.Errorf("with a comparison of a generic function turned round it says %q", got)
	}
}

func TestQuotasSumToSample(t *testing.T) {
	core, sql := 0, 0
	for _, o := range Operators() {
		if o.Quota%5 != 0 {
			t.Errorf("the quota %d of %s has no fifth", o.Quota, o.Name)
		}
		if o.SQL {
			sql += o.Quota
		} else {
			core += o.Quota
		}
	}
	if core != 300 || sql != 60 {
		t.Errorf("quotas amount to %d and %d; want 300 and 60", core, sql)
	}
}

// made returns candidates of one operator, `each` for every function.
func made(operator string, functions, each int) []*Candidate {
	var list []*Candidate
	for f := range functions {
		fn := new(function)
		for n := range each {
			list = append(list, &Candidate{ID: fmt.Sprintf("f%d:%s:%d", f, operator, n), Operator: operator, fn: fn})
		}
	}
	return list
}

func TestDrawDependsOnlyOnSeedAndID(t *testing.T) {
	list := made("guards", 80, 5)
	first := Draw(list, "seed", false)
	slices.Reverse(list)
	if second := Draw(list, "seed", false); !slices.Equal(first, second) {
		t.Error("another order of the candidates, another sample")
	}
	if other := Draw(list, "another seed", false); slices.Equal(first, other) {
		t.Error("another seed has the same sample")
	}
	if len(first) != 50 {
		t.Errorf("%d drawn, the quota is 50", len(first))
	}
	if fifth := Draw(list, "seed", true); !slices.Equal(fifth, first[:10]) {
		t.Error("the fifth is not the beginning of the sample")
	}
}

func TestDrawLimitsMutantsPerFunction(t *testing.T) {
	if drawn := Draw(made("guards", 1, 400), "seed", false); len(drawn) != perFunction {
		t.Errorf("%d of one function", len(drawn))
	}
}
