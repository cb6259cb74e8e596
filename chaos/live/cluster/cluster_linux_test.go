package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/core/testenv"
)

// Like systemd by default, the test sends SIGTERM to a worker, its shims and its actions. No execution fails
// because of that: runs that were ended are repeated, at no cost in retries.
func TestStoppingWholeWorkersFailsNoExecution(t *testing.T) {
	stops := 3
	if testenv.All() {
		stops = 10
	}
	b := startFixture(t, 1, 2)
	r := rand.New(rand.NewPCG(1, 0))
	total := 0
	for stop := range stops {
		b.submit("stopped", 50)
		total += 50
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond) // a seeded moment
		d := b.c.Workers[stop%len(b.c.Workers)]
		b.eventually(d.Name+" runs something", func() error {
			if b.count(fmt.Sprintf("status = 'running' and worker = (select id from worker where name = '%s')", d.Name)) == 0 {
				return errors.New("no execution runs on it")
			}
			return nil
		})
		all := processesOf(t, d.Name)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
		}
		ctx, cancel := context.WithTimeout(b.ctx, testenv.Patience())
		err := d.Instance().Wait(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Launch(); err != nil {
			t.Fatalf("stop %d, of %s: %v", stop, d.Name, err)
		}
	}
	b.awaitSettled()
	var ends string
	err := b.db.QueryRow(b.ctx, `select coalesce(string_agg(concat_ws(' ', n, status, failure_reason), ', ' order by status), '')
		from (select status, failure_reason, count(*) as n from execution group by 1, 2) e`).Scan(&ends)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d executions: %s", total, ends)
	if n := b.count("status = 'completed'"); n != total {
		t.Errorf("%d of %d completed", n, total)
	}
	if n := b.count("status <> 'completed'"); n == 0 {
		t.Error("no stop has ended a run")
	}
	// A shim that is just starting can't catch the signal yet, but it has not started an action either.
	if n := b.count("status <> 'completed' and failure_reason not in ('worker_shutdown', 'worker_unavailable')"); n > 0 {
		t.Errorf("%d runs count as failed", n)
	}
	b.judge(total)
}

// processesOf returns the process of this test's daemon called name, and all its descendants.
func processesOf(t *testing.T, name string) (all []int) {
	t.Helper()
	children := make(map[int][]int)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // empty if it has ended
		if fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	for _, pid := range children[os.Getpid()] {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if slices.Contains(strings.Split(string(line), "\x00"), name) {
			all = append(all, pid)
		}
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
