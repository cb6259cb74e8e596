package explore

import (
	"os"
	"testing"
)

// less is an accepted fall in the number of occasions: the largest percentage, and the reason.
type less struct {
	percent float64
	why     string
}

// judgedLess lists, by number, the rules that are judged on fewer occasions since the daemons became faster.
// A fall of any other rule, or a larger fall, fails the test.
func judgedLess() map[int]less {
	return map[int]less{
		12: {11, "a dispatch in one step is one wait, where it was two, and an end that is handled with its result is no wait for its handling"},
		24: {8, "what was sent to a deaf worker, or to one that is cut off, has not come to it: the rule lets it off since, and the scheduler's draws are others"},
	}
}

// occasions counts how often each rule was judged in the runs that both texts contain.
func occasions(before, now string) (was, is []uint64, common int, problems []string) {
	old, problems := readHistories(before)
	runs, more := readHistories(now)
	for key, r := range runs {
		o, known := old[key]
		if !known {
			continue
		}
		common++
		for len(was) < len(o.judged) {
			was, is = append(was, 0), append(is, 0)
		}
		for i := range min(len(o.judged), len(r.judged)) {
			was[i] += o.judged[i]
			is[i] += r.judged[i]
		}
	}
	return was, is, common, append(problems, more...)
}

// fallen returns, by number, the rules whose judgements have fallen by more than 1/mostFall, with the fall in
// percent.
func fallen(was, is []uint64) map[int]float64 {
	found := make(map[int]float64)
	for i := range was {
		if is[i]*mostFall < was[i]*(mostFall-1) {
			found[i+1] = 100 - 100*float64(is[i])/float64(was[i])
		}
	}
	return found
}

// A change that makes the daemons faster may omit steps, and with them occasions at which rules are judged.
// HANDOFF_OCCASIONS names the histories of an older commit (`.ci/occasions COMMIT` writes the file); without
// it the committed histories are compared with themselves.
func TestRulesAreJudgedAsOftenAsBefore(t *testing.T) {
	file := os.Getenv("HANDOFF_OCCASIONS")
	if file == "" {
		file = histories
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("HANDOFF_OCCASIONS: reading the older histories: %v", err)
	}
	now, err := os.ReadFile(histories)
	if err != nil {
		t.Fatal(err)
	}
	was, is, common, problems := occasions(string(before), string(now))
	for _, p := range problems {
		t.Errorf("%s or %s: %s", file, histories, p)
	}
	if common == 0 {
		t.Fatalf("%s has no run that %s has, too: is it the histories.txt of an older commit?", file, histories)
	}
	t.Logf("%d runs are in both", common)
	for i := range was {
		if was[i] > 0 {
			t.Logf("%s: %d → %d occasions, %+.1f %%", invariantName(i), was[i], is[i], 100*float64(is[i])/float64(was[i])-100)
		}
	}
	for number, by := range fallen(was, is) {
		if known := judgedLess()[number]; by <= known.percent {
			t.Logf("%s is judged %.1f %% less: %s", invariantName(number-1), by, known.why)
			continue
		}
		t.Errorf("%s is judged %.1f %% less (%d → %d). Find out which step it lost: if the step no longer exists, say so in judgedLess",
			invariantName(number-1), by, was[number-1], is[number-1])
	}
}

func TestFewerOccasionsAreReported(t *testing.T) {
	const before = "a hardened 0 1 9 100 100 40\na hardened 1 1 9 100 0 40\ngone hardened 0 1 9 9 9 9\n"
	const now = "a hardened 0 2 9 100 99 37 5\na hardened 1 2 9 100 0 38 5\nnew hardened 0 1 9 9 9 9 9\n"
	was, is, common, problems := occasions(before, now)
	if len(problems) > 0 || common != 2 {
		t.Fatalf("%d common runs, problems %v; want 2 and none", common, problems)
	}
	if got := fallen(was, is); len(got) != 1 || got[3] != 6.25 {
		t.Errorf("fallen: %v; want rule 3 alone, from 80 to 75, by 6.25 percent", got)
	}
}
