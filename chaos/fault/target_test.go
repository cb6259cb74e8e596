package fault

import (
	"fmt"
	"testing"
)

func TestSelectReturnsMatchingProcesses(t *testing.T) {
	c := Cluster{Executors: []string{"executor-1", "executor-2"}, Workers: []string{"shell-1", "shell-2"}}
	for target, want := range map[string]string{
		"shell-1": "[shell-1] 1", AnyWorker: "[shell-1 shell-2] 1", HalfWorkers: "[shell-1 shell-2] 1", EveryWorker: "[shell-1 shell-2] 2",
		AnyExecutor: "[executor-1 executor-2] 1", EveryExecutor: "[executor-1 executor-2] 2", Broker: "[] 0",
	} {
		names, count := c.Select(target)
		if got := fmt.Sprint(names, " ", count); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}
