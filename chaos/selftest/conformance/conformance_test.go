package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/selftest/conformance"
	"handoff/chaos/selftest/conformance/brokertest"
	"handoff/chaos/selftest/conformance/storetest"
	"handoff/sim/simbroker"
)

var update = flag.Bool("update", false, "write README.md")

// The page agrees with the tables.
func TestReadme(t *testing.T) {
	if *update {
		if err := os.WriteFile("README.md", []byte(conformance.Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != conformance.Markdown() {
		t.Error("README.md is behind: go test ./chaos/selftest/conformance -update")
	}
}

// Every difference has a reason and fits into a row of a table.
func TestEveryDifferenceHasReason(t *testing.T) {
	for _, d := range conformance.Differences() {
		if d.About == "" || d.What == "" || d.Why == "" || strings.ContainsAny(d.What+d.Why, "|\n") {
			t.Errorf("%+v", d)
		}
	}
}

// The page lists for each release the suite's expectations, and no behaviour that the suite
// distinguishes is missing.
func TestBehavioursMatchSuite(t *testing.T) {
	if !slices.Equal(conformance.Modelled, simbroker.Versions()) {
		t.Fatalf("the page has the releases %v, the model %v", conformance.Modelled, simbroker.Versions())
	}
	told := make(map[string]bool)
	for _, b := range conformance.Behaviours() {
		for i, version := range conformance.Modelled {
			for j, other := range conformance.Modelled[:i] {
				same, differ := b.On[i] == b.On[j], false
				for _, queue := range []string{brokertest.Quorum, brokertest.Classic} {
					if b.Queues != "both" && !strings.HasPrefix(b.Queues, queue) {
						continue
					}
					keeps := strings.Contains(b.Queues, "without")
					differ = differ || feature(b.Feature, queue, version, keeps) != feature(b.Feature, queue, other, keeps)
				}
				if same == differ {
					t.Errorf("%s of %s queues: the page says that %s and %s do the same: %v; the suite says: %v", b.Feature, b.Queues, other, version, same, !differ)
				}
			}
		}
		told[b.Feature] = true
	}
	for i := range reflect.TypeFor[brokertest.Features]().NumField() {
		name := reflect.TypeFor[brokertest.Features]().Field(i).Name
		for _, version := range conformance.Modelled[1:] {
			for _, queue := range []string{brokertest.Quorum, brokertest.Classic} {
				if !told[name] && feature(name, queue, version, false) != feature(name, queue, conformance.Modelled[0], false) {
					t.Errorf("the suite distinguishes releases by %s of %s queues, and the page does not list that", name, queue)
				}
			}
		}
	}
}

func feature(name, queue, version string, keeps bool) any {
	return reflect.ValueOf(brokertest.FeaturesOf(queue, version, keeps)).FieldByName(name).Interface()
}

// Every fixed divergence has an existing case, which prevents its return.
func TestEveryMendHasCase(t *testing.T) {
	cases := make(map[string]bool)
	for _, c := range storetest.Cases() {
		cases[conformance.Store+c.Name] = true
	}
	for _, c := range brokertest.Cases() {
		cases[conformance.Broker+c.Name] = true
	}
	for _, m := range conformance.Mended() {
		if !cases[m.Model+m.Case] {
			t.Errorf("there is no case %q of the %s", m.Case, m.Model)
		}
	}
}

// scenariosVariable has the passed scenarios of the live world, as .ci/newer counts them: a server, its
// version, and their number.
const scenariosVariable = "HANDOFF_CONFORMANCE_SCENARIOS"

// The suites record their own results. The results of the script that runs scenarios are recorded
// here.
func TestRecordScenarios(t *testing.T) {
	text := os.Getenv(scenariosVariable)
	if text == "" {
		t.Skipf("%s is not set", scenariosVariable)
	}
	var r conformance.Result
	if n, err := fmt.Sscan(text, &r.Server, &r.Version, &r.Scenarios); n != 3 || err != nil {
		t.Fatalf("%s is %q, not a server, its version and a number: %v", scenariosVariable, text, err)
	}
	if err := conformance.Record(r); err != nil {
		t.Fatal(err)
	}
}

// Results of a version are merged from several suites, and none is lost.
func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	t.Setenv(conformance.RecordVariable, path)
	for _, r := range []conformance.Result{
		{Server: "b", Version: "1", Cases: 3, Skipped: 1}, {Server: "a", Version: "2", Cases: 1}, {Server: "b", Version: "1", Commands: 100},
	} {
		if err := conformance.Record(r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `[
  {
    "Server": "a",
    "Version": "2",
    "Cases": 1
  },
  {
    "Server": "b",
    "Version": "1",
    "Cases": 3,
    "Skipped": 1,
    "Commands": 100
  }
]
`
	if string(got) != want {
		t.Errorf("recorded:\n%s", got)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := conformance.Record(conformance.Result{Server: "b"}); err == nil {
		t.Error("a broken file is overwritten")
	}
}
