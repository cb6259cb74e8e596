package live

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"handoff/chaos/oracle"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/execution"
)

// The harness's own actions draw at random how long they take and whether they fail. Each run draws from the
// seed, the execution and its epoch, so a retry draws new values and a replay the same ones.

// drawInShell is shell code that draws a number from 0 to 999,999 in the 64-bit arithmetic of any POSIX
// shell, with several steps of a linear congruential generator.
const drawInShell = `x=$((HANDOFF_EXECUTION_ID*2654435761+HANDOFF_EPOCH*40503+SEED*97)); ` +
	`d() { for i in 1 2 3; do x=$(((x*6364136223846793005+1442695040888963407)&9223372036854775807)); done; r=$(((x>>20)%1000000)); }; `

// shellAction returns the command line of an action for the runtime shell.
func shellAction(a *scenario.Action, seed uint64) string {
	text := strings.ReplaceAll(drawInShell, "SEED", fmt.Sprint(seed%1_000_000)) + "d; " + takesInShell(a) +
		`sleep "$((us/1000000)).$(printf %06d $((us%1000000)))"; `
	if a.FailPerMillion > 0 {
		text += fmt.Sprintf("d; if [ $r -lt %d ]; then %s; fi; ", a.FailPerMillion, failInShell(a))
	}
	return text + `echo '{"ok":true}'`
}

// failInShell returns commands that fail with one of the action's exit codes or, if it has none, with its
// printed reason.
func failInShell(a *scenario.Action) string {
	codes := exitCodesOf(a)
	if len(codes) == 0 {
		if a.FailReason == execution.Unknown {
			// Without a message, as in the simulator: the text about retries must not begin with an empty line.
			return `echo '{"error":{"type":"unknown"}}'; exit 1`
		}
		return fmt.Sprintf(`echo '{"error":{"type":"%v","message":"drawn to fail"}}'; exit 1`, a.FailReason)
	}
	return fmt.Sprintf("echo drawn to fail >&2; d; set -- %s; shift $((r*%d/1000000)); exit $1", strings.Trim(fmt.Sprint(codes), "[]"), len(codes))
}

// exitCodesOf returns the exit codes with which the action fails: the scenario's, or else the code that
// states its reason. If there is none, the action prints the reason.
func exitCodesOf(a *scenario.Action) []int {
	if len(a.FailCodes) > 0 {
		return a.FailCodes
	}
	if code := oracle.ExitCodeOf(a.FailReason); code != 0 {
		return []int{code}
	}
	return nil
}

// failureOf returns the reason of a failure with this exit code. said is the code if it states the reason,
// and 0 if the action printed the reason.
func failureOf(a *scenario.Action, code int) (reason execution.Reason, said int) {
	if len(exitCodesOf(a)) == 0 {
		return a.FailReason, 0
	}
	return oracle.ReasonOf(code, a.Retried), code
}

// logPieces is the number of pieces of the range of a log-uniform draw in the shell, which has no logarithm.
// Each piece is equally likely, and the draw is uniform within a piece.
const logPieces = 32

// takesInShell returns shell commands that set the variable us to the drawn duration in microseconds.
func takesInShell(a *scenario.Action) string {
	if !a.TakesLog {
		return fmt.Sprintf("us=$((%d+r*%d/1000000)); ", a.TakesMin.Microseconds(), (a.TakesMax - a.TakesMin).Microseconds())
	}
	var ends strings.Builder
	ratio := float64(a.TakesMax) / float64(a.TakesMin)
	for i := range logPieces + 1 {
		fmt.Fprintf(&ends, " %d", int64(float64(a.TakesMin.Microseconds())*math.Pow(ratio, float64(i)/logPieces)))
	}
	return fmt.Sprintf("set --%s; shift $((r*%d/1000000)); us=$(($1+r*%d%%1000000*($2-$1)/1000000)); ", ends.String(), logPieces, logPieces)
}

// pythonAction returns the script of an action for the runtime python.
func pythonAction(a *scenario.Action, seed uint64) string {
	return fmt.Sprintf(`import json, os, random, sys, time
r = random.Random("%d/%%s/%%s" %% (os.environ["HANDOFF_EXECUTION_ID"], os.environ["HANDOFF_EPOCH"]))
least, most = %f, %f
time.sleep(least * (most / least) ** r.random() if %s else r.uniform(least, most))
if r.randrange(1000000) < %d:
    codes = %s
    if codes:
        sys.exit(r.choice(codes))
    print(json.dumps({"error": {"type": "%v", "message": "drawn to fail"}}))
    sys.exit(1)
print(json.dumps({"ok": True}))
`, seed, a.TakesMin.Seconds(), a.TakesMax.Seconds(), inPython(a.TakesLog), a.FailPerMillion, numberList(exitCodesOf(a)), a.FailReason)
}

func inPython(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// nodeAction returns the script of an action for the runtime node.
func nodeAction(a *scenario.Action, seed uint64) string {
	return fmt.Sprintf(`let x = BigInt(process.env.HANDOFF_EXECUTION_ID) * 2654435761n + BigInt(process.env.HANDOFF_EPOCH) * 40503n + %dn;
const draw = () => { for (let i = 0; i < 3; i++) x = (x * 6364136223846793005n + 1442695040888963407n) & 0x7fffffffffffffffn; return Number((x >> 20n) %% 1000000n); };
const least = %f, most = %f, part = draw() / 1000000;
const ms = %t ? least * (most / least) ** part : least + part * (most - least);
setTimeout(() => {
  if (draw() < %d) {
    const codes = %s;
    if (codes.length > 0) process.exit(codes[Math.floor(draw() * codes.length / 1000000)]);
    console.log('{"error":{"type":"%v","message":"drawn to fail"}}');
    process.exit(1);
  }
  console.log('{"ok":true}');
}, ms);
`, seed%1_000_000, float64(a.TakesMin.Microseconds())/1000, float64(a.TakesMax.Microseconds())/1000, a.TakesLog, a.FailPerMillion, numberList(exitCodesOf(a)), a.FailReason)
}

// numberList formats numbers as a list literal, which is the same in Python and JavaScript.
func numberList(numbers []int) string {
	return "[" + strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ", ") + "]"
}

// prepareActions writes a scenario's scripts to a folder, and returns its actions with their programs.
func prepareActions(s *scenario.Scenario, seed uint64, folder string) ([]execution.Action, error) {
	var all []execution.Action
	for i := range s.Actions {
		a := &s.Actions[i]
		out := a.Action
		script, extension := "", ""
		switch a.Runtime {
		case config.RuntimeShell:
			out.Entrypoint = shellAction(a, seed)
		case config.RuntimePython:
			script, extension = pythonAction(a, seed), ".py"
		case config.RuntimeNode:
			script, extension = nodeAction(a, seed), ".js"
		}
		if script != "" {
			out.Entrypoint = a.Ref + extension
			if err := os.WriteFile(filepath.Join(folder, out.Entrypoint), []byte(script), 0o600); err != nil {
				return nil, fmt.Errorf("writing the action %s: %w", a.Ref, err)
			}
		}
		all = append(all, out)
	}
	return all, nil
}
