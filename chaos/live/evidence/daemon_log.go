package evidence

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/hook"
	"handoff/core/execution"
)

// The daemons' log messages after a guarded write that matched no row.
const (
	claimRefused = "claim refused"
	staleWrite   = "stale write rejected"
)

// DaemonLog reads a daemon's log, in slog's JSON. Any other line, such as a panic's stack, gets the time of
// the line before.
func DaemonLog(path, process string, start time.Time) []Item {
	f, err := os.Open(path)
	if err != nil {
		return nil // the log is only for readers; no judgement depends on it
	}
	defer func() { _ = f.Close() }()
	var all []Item
	last := start
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var fields map[string]any
		if json.Unmarshal(lines.Bytes(), &fields) != nil {
			all = append(all, Item{Wall: last, Event: history.Event{At: last.Sub(start), Kind: history.Logged, Process: process, Text: lines.Text()}})
			continue
		}
		at, _ := fields["time"].(string)
		if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
			last = t
		}
		message, _ := fields["msg"].(string)
		e := history.Event{At: last.Sub(start), Kind: history.Logged, Process: process, Text: inWords(fields)}
		if message == hook.LogMessage {
			id, _ := fields[hook.LogExecution].(float64)
			e.Kind, e.Execution = history.MutantActed, execution.ID(id)
			e.Text, _ = fields[hook.LogText].(string)
		}
		all = append(all, Item{Wall: last, Event: e})
		if message == claimRefused || strings.HasPrefix(message, staleWrite) {
			e.Kind, e.Text = history.StaleWrite, ""
			id, _ := fields["execution"].(float64)
			epoch, _ := fields["epoch"].(float64)
			e.Execution, e.Epoch = execution.ID(id), execution.Epoch(epoch)
			if message == claimRefused {
				e.To = execution.Running
			}
			all = append(all, Item{Wall: last, Event: e})
		}
	}
	return all
}

// inWords formats a line as in the simulator's log: level, message, and the other fields sorted by name.
func inWords(fields map[string]any) string {
	text := fmt.Sprintf("%v %v", fields["level"], fields["msg"])
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch key {
		case "time", "level", "msg":
		default:
			text += fmt.Sprintf(" %s=%v", key, fields[key])
		}
	}
	return text
}
