package scenarios

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"handoff/core/telemetry"

	"handoff/chaos/scenario"
	"handoff/core/config"
)

func TestLibrary(t *testing.T) {
	list, err := Library()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
		if path.Base(s.File) != s.Name+".yaml" {
			t.Errorf("%s is called %s", s.File, s.Name)
		}
		if !regexp.MustCompile(`\(D\d+`).MatchString(s.About) {
			t.Errorf("%s doesn't name the defects that it guards against: %s", s.Name, s.About)
		}
		data, err := files.ReadFile(strings.TrimPrefix(s.File, "scenarios/"))
		if err != nil || !strings.HasPrefix(string(data), "# yaml-language-server: $schema=../schema.json\n") {
			t.Errorf("%s doesn't begin with its schema (%v)", s.File, err)
		}
		// These have no faults, but test load, long runs, a broken action or a missing runtime.
		calm := []string{
			"overload", "broken-action", "wrong-runtime", "far-ahead", "long-and-short", "long-queue", "long-runs", "long-runs-in-waves", "long-runs-retried",
			"pinned-backlog", "pinned-beside-unpinned", "pinned-with-a-limit", "long-runs-beside-a-queue", "work-behind-full-workers", "cancelled-together", "held-for-hours", "late-behind-short-runs",
		}
		// Under the documented profile, these fail by its policy or would only take more time.
		hardened := []string{
			"every-time-scale", "far-ahead", "long-and-short", "long-queue", "long-runs", "long-runs-retried", "more-than-a-batch",
			"keys-used-again", "pinned-backlog", "pinned-beyond-a-batch", "step-kills-busy", "step-past-dispatch-deadlines", "steps-while-busy", "two-days",
			"dead-letters-unattended", "slow-handoffs", "work-behind-full-workers", "no-executors", "executors-start-often", "dead-letter-path-broken", "poisoned-broker",
			"one-queue-stuck", "consumer-timeout", "consumer-timeout-cancels", "dead-lettering-stands-still", "late-behind-short-runs", "what-is-kept-leaves",
			"broker-holds-publishers-back", "work-reaches-nobody", "deploys-under-long-runs",
		}
		if len(s.Faults) == 0 && !slices.Contains(calm, s.Name) || len(s.Profiles) != 2 && !slices.Contains(hardened, s.Name) {
			t.Errorf("%s has %d faults and profiles %v", s.Name, len(s.Faults), s.Profiles)
		}
		for _, p := range s.Profiles {
			if !slices.ContainsFunc(s.Expect(p).Executions, func(b scenario.Bound) bool { return b.Of == scenario.Stuck && b.Holds(0, 1) && !b.Holds(1, 1) }) {
				t.Errorf("%s may leave executions stuck under %s", s.Name, p)
			}
		}
	}
	if !slices.IsSorted(names) || !slices.Equal(names, Names()) {
		t.Errorf("names %v, want %v", names, Names())
	}
	for _, want := range []string{
		"crash-after-heartbeat", "network-partition", "ttl-race", "dropped-status-messages",
		"worker-stops-mid-execution", "worker-never-picks-up", "all-workers-down", "worker-stops-gracefully", "message-expires-in-queue",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("the library lacks %s", want)
		}
	}
}

// An execution that is lost after its claim fails under documented, and is abandoned under hardened. A
// scenario that expects the opposite has confused the two profiles.
func TestLibraryKnowsItsProfiles(t *testing.T) {
	s, err := Find("worker-stops-mid-execution")
	if err != nil {
		t.Fatal(err)
	}
	may := func(p config.Profile, of string) bool {
		return !slices.ContainsFunc(s.Expect(p).Executions, func(b scenario.Bound) bool { return b.Of == of && !b.Holds(1, 16) })
	}
	if !may(config.Hardened, "abandoned") || may(config.Documented, "abandoned") || !may(config.Documented, "failed") {
		t.Errorf("hardened %+v, documented %+v", s.Expect(config.Hardened), s.Expect(config.Documented))
	}
}

func TestFind(t *testing.T) {
	s, err := Find("ttl-race")
	if err != nil || s.Name != "ttl-race" {
		t.Errorf("Find(ttl-race) = %v, %v", s, err)
	}
	for _, name := range []string{"ttl-rac", "../scenarios/ttl-race", ""} {
		if _, err := Find(name); err == nil || !strings.Contains(err.Error(), "all-workers-down, ") {
			t.Errorf("Find(%q): %v", name, err)
		}
	}
	if _, err := Find("ttl-rac"); !strings.Contains(err.Error(), `did you mean "ttl-race"?`) {
		t.Errorf("no near name in: %v", err)
	}
}

// Every alert is expected by a scenario, because an untested alert might never fire or never end.
func TestLibraryCoversEveryAlert(t *testing.T) {
	library, err := Library()
	if err != nil {
		t.Fatal(err)
	}
	fires, resolves := make(map[string]bool), make(map[string]bool)
	for _, s := range library {
		for _, p := range s.Profiles {
			for _, name := range s.Expect(p).Alerts.Fires {
				fires[name] = true
			}
			for _, name := range s.Expect(p).Alerts.Resolves {
				resolves[name] = true
			}
		}
	}
	for _, name := range telemetry.RuleNames() {
		if !fires[name] || !resolves[name] {
			t.Errorf("%s is expected to fire: %v, to resolve: %v", name, fires[name], resolves[name])
		}
	}
}
