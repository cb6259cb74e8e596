package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/alert"
	"handoff/chaos/audit"
	"handoff/chaos/live/scrape"
	"handoff/chaos/servers"
	"handoff/core/config"
	"handoff/core/testenv"
)

// These tests run the real binaries on a real PostgreSQL and RabbitMQ, and break them. They judge by the
// database and the actions' own records: nothing is lost, and nothing runs twice.

var binaries string

// machine holds the servers that all these tests share. Each test has its own database and virtual host.
// Tests don't run in parallel, so a test may restart the servers.
var machine struct {
	once sync.Once
	set  *servers.Set
	err  error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "handoff-bin-*")
	if err != nil {
		panic(err)
	}
	binaries = dir
	build := exec.Command("go", "build", "-o", dir+"/", "handoff/cmd/executor", "handoff/cmd/worker")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the daemons: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	if machine.set != nil {
		if err := machine.set.Down(); err != nil {
			fmt.Fprintln(os.Stderr, "ending the servers:", err)
			code = max(code, 1)
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// calmEnv returns a configuration in which nothing expires on a slow machine: no dispatch expires during a
// test's wait, and a lease lasts a minute without a heartbeat.
func calmEnv() map[string]string {
	never := 2 * testenv.Patience()
	return map[string]string{
		"HANDOFF_WORKER_HEARTBEAT_INTERVAL":                  "1s",
		"HANDOFF_WORKER_HEARTBEAT_STALENESS_MULTIPLIER":      "60",
		"HANDOFF_WORKER_FENCE_MARGIN":                        "12s",
		"HANDOFF_WORKER_KILL_GRACE":                          "300ms",
		"HANDOFF_WORKER_STATEMENT_TIMEOUT":                   "10s",
		"HANDOFF_WORKER_SHUTDOWN_TIMEOUT":                    testenv.Patience().String(),
		"HANDOFF_WORKER_CONCURRENCY":                         "25",
		"HANDOFF_EXECUTOR_STATEMENT_TIMEOUT":                 "4s",
		"HANDOFF_EXECUTOR_CLAIM_EXPIRY":                      "9s",
		"HANDOFF_EXECUTOR_CONFIRM_TIMEOUT":                   "5s",
		"HANDOFF_EXECUTOR_RECONCILE_INTERVAL":                "500ms",
		"HANDOFF_EXECUTOR_TIMEOUT_CHECK_INTERVAL":            "1s",
		"HANDOFF_EXECUTOR_REAP_GRACE":                        "1s",
		"HANDOFF_EXECUTOR_DISPATCH_TIMEOUT":                  never.String(),
		"HANDOFF_EXECUTOR_SCHEDULED_TIMEOUT":                 never.String(),
		"HANDOFF_EXECUTOR_QUEUE_RETENTION":                   never.String(),
		"HANDOFF_MESSAGE_QUEUE_RABBITMQ_WORKER_QUEUE_TTL_MS": fmt.Sprint(never.Milliseconds()),
		"HANDOFF_MESSAGE_QUEUE_RABBITMQ_HEARTBEAT":           "30s",
		"HANDOFF_MESSAGE_QUEUE_RABBITMQ_RECONNECT_MAX":       "1s",
	}
}

// takeoverEnv returns calmEnv with a lease of nine seconds, for tests that wait for a lease to expire. If a
// live worker loses its lease because the machine is slow, such a test costs at most a retry.
func takeoverEnv() map[string]string {
	env := calmEnv()
	env["HANDOFF_WORKER_HEARTBEAT_STALENESS_MULTIPLIER"] = "9"
	env["HANDOFF_WORKER_FENCE_MARGIN"] = "3s"
	env["HANDOFF_WORKER_STATEMENT_TIMEOUT"] = "2s"
	return env
}

// fixture is a running cluster with helpers for tests.
type fixture struct {
	t       *testing.T
	ctx     context.Context
	c       *Cluster
	db      *pgx.Conn
	witness string
	keys    int
}

const actionFiles = `name: quick
runtime: noop
max_retries: 3
---
name: brief
runtime: shell
entrypoint: sleep 0.2; cat
max_retries: 20
---
name: steady
runtime: shell
entrypoint: sleep 1; cat
max_retries: 5
---
name: stopped
runtime: shell
entrypoint: sleep 0.2; cat
max_retries: 1
---
name: elsewhere
runtime: python
entrypoint: elsewhere.py
---
name: once
runtime: shell
entrypoint: sleep 3600
---
name: patient
runtime: shell
entrypoint: sleep 4
---
name: spy
runtime: shell
entrypoint: |
  worker=$(cut -d' ' -f4 /proc/$PPID/stat)
  cat /proc/$worker/comm
  env | grep HANDOFF_DATABASE
  ls /proc/self/fd | grep -v '^[0-3]$'
  grep -h 'Max core file size' /proc/$PPID/limits /proc/$worker/limits | grep -v ' 0  *0 '
  for pid in $PPID $worker; do
    tr '\0' '\n' </proc/$pid/environ | grep HANDOFF_DATABASE
    for file in mem maps fd/1 fd/3; do
      (: </proc/$pid/$file) && echo "opened $file of $pid"
    done
  done 2>/dev/null
  exit 0
`

func startFixture(t *testing.T, executors, workers int) *fixture {
	t.Helper()
	return startFixtureWith(t, calmEnv(), executors, workers)
}

func startFixtureWith(t *testing.T, env map[string]string, executors, workers int) *fixture {
	t.Helper()
	ctx := t.Context()
	dir := t.TempDir()
	for i, file := range strings.Split(actionFiles, "---\n") {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("action-%d.yaml", i)), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	witness := filepath.Join(t.TempDir(), "witness")
	env["HANDOFF_WITNESS"] = witness
	c := &Cluster{Servers: serversForTest(t)}
	b := &fixture{t: t, ctx: ctx, c: c, witness: witness}
	t.Cleanup(func() {
		if t.Failed() {
			b.showLogs()
		}
		_ = c.stopDaemons() // never returns an error
		for _, d := range append(c.Executors, c.Workers...) {
			if p := d.Instance(); p != nil {
				_ = os.Remove(p.Log()) // the next test's daemons have the same names
			}
		}
	})
	if err := c.startDaemons(ctx, Options{Bin: binaries, Executors: executors, Workers: workers, Actions: dir, Env: env}); err != nil {
		t.Fatal(err)
	}
	b.connect()
	return b
}

// serversForTest returns the servers, which it starts for the first test, with a new database and virtual
// host. These end with the servers.
func serversForTest(t *testing.T) *servers.Set {
	t.Helper()
	machine.once.Do(func() {
		ctx := context.WithoutCancel(t.Context())
		if machine.err = servers.EnsureInstalled(ctx, io.Discard); machine.err == nil {
			machine.set, machine.err = servers.Up(ctx, servers.Options{Postgres: true, RabbitMQ: true, PrivateOnly: true})
		}
	})
	servers.Require(t, machine.err)
	db, err := machine.set.Postgres.CreateDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host, err := machine.set.RabbitMQ.CreateVhost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	machine.set.Postgres.URL, machine.set.RabbitMQ.URL = db.URL, host.URL
	return machine.set
}

func (f *fixture) connect() {
	f.t.Helper()
	f.eventually("the database answers", func() error {
		db, err := pgx.Connect(f.ctx, f.c.Servers.Postgres.URL)
		f.db = db
		return err
	})
}

// showLogs logs the end of every daemon's log.
func (f *fixture) showLogs() {
	for _, d := range append(f.c.Executors, f.c.Workers...) {
		if p := d.Instance(); p != nil {
			text, _ := os.ReadFile(p.Log())
			f.t.Logf("%s:\n%s", d.Name, text[max(0, len(text)-3000):])
		}
	}
}

// eventually polls a condition, and fails the test if the condition is not met in time.
func (f *fixture) eventually(what string, condition func() error) {
	f.t.Helper()
	within := testenv.Patience()
	deadline := time.Now().Add(within)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("after %v, still not: %s: %v", within, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// submit creates n executions through the executors' APIs, in batches with idempotency keys. It retries
// requests until they succeed.
func (f *fixture) submit(action string, n int) {
	f.t.Helper()
	for n > 0 {
		size := min(n, 100)
		items := make([]map[string]any, size)
		for i := range items {
			f.keys++
			items[i] = map[string]any{"action_ref": action, "parameters": map[string]any{"n": f.keys}, "idempotency_key": fmt.Sprint("k", f.keys)}
		}
		body, err := json.Marshal(map[string]any{"executions": items})
		if err != nil {
			f.t.Fatal(err)
		}
		attempt := 0
		f.eventually("the API accepts executions", func() error {
			e := f.c.Executors[attempt%len(f.c.Executors)]
			attempt++
			request, err := http.NewRequestWithContext(f.ctx, http.MethodPost, e.URL+"/api/v1/executions/batch", bytes.NewReader(body))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/json")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			if response.StatusCode >= 400 && response.StatusCode < 500 {
				f.t.Fatalf("%s: %s", response.Status, text)
			}
			if response.StatusCode >= 300 {
				return fmt.Errorf("%s: %s", response.Status, text)
			}
			return nil
		})
		n -= size
	}
}

// count returns the number of executions that satisfy a condition.
func (f *fixture) count(where string) (n int) {
	f.t.Helper()
	f.eventually("rows can be counted", func() error {
		err := f.db.QueryRow(f.ctx, "select count(*) from execution where "+where).Scan(&n)
		if err != nil && f.db.IsClosed() {
			f.connect()
		}
		return err
	})
	return n
}

// awaitSettled waits until every execution has ended and every end has been handled.
func (f *fixture) awaitSettled() {
	f.t.Helper()
	f.eventually("every execution is finished and handled", func() error {
		if open := f.count("orchestrated_at is null"); open > 0 {
			return fmt.Errorf("%d are open", open)
		}
		return nil
	})
}

// judge checks from the audit, the chains and the actions' own records that no execution was lost or ran twice.
func (f *fixture) judge(chains int) {
	f.t.Helper()
	c := config.Default(config.Hardened)
	r, err := audit.Judge(f.ctx, f.c.Servers.Postgres.URL, audit.Options{Config: c})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, v := range r.Violations {
		f.t.Errorf("invariant %d: %s", v.Invariant.Number, v.Message)
	}
	if r.Unread != 0 {
		f.t.Errorf("%d events of this version's own audit could not be read: %q", r.Unread, r.Unknown)
	}
	if judged := r.Count(audit.Holds) + r.Count(audit.Broken); judged < 4 {
		f.t.Errorf("only %d invariants were judged", judged)
	}
	if n := f.count("original_execution is null"); n != chains {
		f.t.Errorf("%d chains exist, %d were submitted", n, chains)
	}
	f.checkWitness()
}

type witnessLine struct {
	Event            string
	Execution, Epoch int64
	MonoNS           int64 `json:"mono_ns"`
}

// checkWitness checks from the shims' records that each epoch ran at most once and that no two runs of one
// execution overlapped. (A killed shim records no end, but these tests kill no shims.)
func (f *fixture) checkWitness() {
	f.t.Helper()
	text, err := os.ReadFile(f.witness)
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	started := make(map[[2]int64]bool)
	running := make(map[int64]int)
	for line := range strings.Lines(string(text)) {
		var n witnessLine
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			f.t.Fatalf("witness: %v in %q", err, line)
		}
		key := [2]int64{n.Execution, n.Epoch}
		if n.Event == "end" {
			running[n.Execution]--
			continue
		}
		if started[key] {
			f.t.Errorf("execution %d ran twice at epoch %d", n.Execution, n.Epoch)
		}
		started[key] = true
		if running[n.Execution]++; running[n.Execution] > 1 {
			f.t.Errorf("two runs of execution %d overlapped", n.Execution)
		}
	}
}

func TestThousandExecutionsComplete(t *testing.T) {
	b := startFixture(t, 1, 2)
	b.submit("quick", 1000)
	b.awaitSettled()
	if n := b.count("status = 'completed'"); n != 1000 {
		t.Errorf("%d of 1000 completed", n)
	}
	b.judge(1000)
}

// As the design documents demand, an execution that no worker can run fails in the first scheduling pass,
// without a dispatch.
func TestDocumentedProfileFailsUnrunnableExecutionAtOnce(t *testing.T) {
	env := calmEnv()
	env["HANDOFF_PROFILE"], env["HANDOFF_WORKER_RUNTIMES"] = string(config.Documented), "shell,noop"
	b := startFixtureWith(t, env, 1, 1)
	b.submit("elsewhere", 5)
	b.submit("quick", 5)
	b.awaitSettled()
	if n := b.count("status = 'completed' and action_ref = 'quick'"); n != 5 {
		t.Errorf("%d of 5 executions that fit the worker completed", n)
	}
	const atOnce = `status = 'failed' and failure_reason = 'no_workers' and result->>'error' = 'No workers available'
		and dispatches = 0 and ended = unschedulable_since`
	if n := b.count("action_ref = 'elsewhere' and " + atOnce); n != 5 {
		var how string
		err := b.db.QueryRow(b.ctx, "select string_agg(to_jsonb(e)::text, '; ') from execution e where action_ref = 'elsewhere'").Scan(&how)
		t.Errorf("%d of 5 failed at once: %s %v", n, how, err)
	}
	b.judge(10)
}

func TestGracefulStopLosesNothing(t *testing.T) {
	// Fill both workers, so that ten executions wait.
	slots := 8
	if testenv.All() {
		slots = 25
	}
	env := calmEnv()
	env["HANDOFF_WORKER_CONCURRENCY"] = fmt.Sprint(slots)
	total := 2*slots + 10
	b := startFixtureWith(t, env, 1, 2)
	b.submit("steady", total)
	// The actions end after a second, so not all of them run at the same time.
	b.eventually("as many actions have started as the workers have slots", func() error {
		if n := b.count("started_at is not null"); n < 2*slots {
			return fmt.Errorf("%d have", n)
		}
		return nil
	})
	leaving := b.c.Workers[0].Instance()
	leaving.Terminate()
	b.eventually("the stopping worker has no unclaimed work, although no dispatch expires", func() error {
		if n := b.count("status = 'scheduled' and worker = (select id from worker where name = 'worker-1')"); n > 0 {
			return fmt.Errorf("%d are scheduled there", n)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(b.ctx, testenv.Patience())
	defer cancel()
	if err := leaving.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	b.awaitSettled()
	if n := b.count("status <> 'completed'"); n > 0 {
		var how string
		err := b.db.QueryRow(b.ctx, "select string_agg(concat_ws(' ', id, status, result), '; ') from execution where status <> 'completed'").Scan(&how)
		t.Errorf("%d of %d did not complete: %s %v", n, total, how, err)
	}
	b.judge(total)
}

func TestKillsUnderLoadLoseNothing(t *testing.T) {
	kills := 6
	if testenv.All() {
		kills = 20
	}
	b := startFixtureWith(t, takeoverEnv(), 2, 2)
	seed := uint64(1)
	r := rand.New(rand.NewPCG(seed, 0))
	victims := append(append([]*Daemon{}, b.c.Executors...), b.c.Workers...)
	total := 0
	for kill := range kills {
		b.submit("brief", 20)
		total += 20
		d := victims[r.IntN(len(victims))]
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond) // a seeded moment
		d.Instance().Kill()
		if err := d.Launch(); err != nil {
			t.Fatalf("kill %d, of %s: %v", kill, d.Name, err)
		}
	}
	b.awaitSettled()
	t.Logf("%d completed, %d retries", b.count("status = 'completed'"), b.count("retry_count > 0"))
	if n := b.count("status <> 'completed' and retry_count = max_retries"); n > 0 {
		t.Errorf("%d chains ended without success", n)
	}
	b.judge(total)
}

func TestServerRestartsUnderLoadLoseNothing(t *testing.T) {
	for _, server := range []string{"RabbitMQ", "PostgreSQL"} {
		t.Run(server, func(t *testing.T) {
			b := startFixture(t, 2, 2)
			b.submit("brief", 100)
			var stop, start func(context.Context) error
			if server == "RabbitMQ" {
				stop, start = func(context.Context) error { return b.c.Servers.RabbitMQ.Stop() }, b.c.Servers.RabbitMQ.Start
			} else {
				stop, start = func(context.Context) error { return b.c.Servers.Postgres.Stop() }, b.c.Servers.Postgres.Start
			}
			if err := stop(b.ctx); err != nil {
				t.Fatal(err)
			}
			if err := start(b.ctx); err != nil {
				t.Fatal(err)
			}
			b.submit("brief", 100)
			b.awaitSettled()
			if n := b.count("status <> 'completed' and retry_count = max_retries"); n > 0 {
				t.Errorf("%d chains ended without success", n)
			}
			b.judge(200)
		})
	}
}

// A worker that is paused beyond its lease loses its executions. Its shims end the actions meanwhile, and its
// late results are refused.
func TestPausedWorkerLosesItsWork(t *testing.T) {
	b := startFixtureWith(t, takeoverEnv(), 1, 1)
	b.submit("once", 3)
	b.eventually("the actions run", func() error {
		text, _ := os.ReadFile(b.witness)
		if n := strings.Count(string(text), `"start"`); n != 3 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	b.c.Workers[0].Instance().Pause()
	b.eventually("the shims have ended the actions", func() error {
		text, _ := os.ReadFile(b.witness)
		if n := strings.Count(string(text), `"end"`); n != 3 {
			return fmt.Errorf("%d have ended", n)
		}
		return nil
	})
	b.eventually("the work is abandoned", func() error {
		if n := b.count("status = 'abandoned' and failure_reason = 'worker_lost'"); n != 3 {
			return fmt.Errorf("%d are abandoned", n)
		}
		return nil
	})
	b.c.Workers[0].Instance().Resume()
	b.eventually("the late results are refused and kept", func() error {
		var n int
		err := b.db.QueryRow(b.ctx, "select count(*) from refused_result").Scan(&n)
		if err == nil && n != 3 {
			err = fmt.Errorf("%d are kept", n)
		}
		return err
	})
	b.submit("quick", 5)
	b.awaitSettled()
	if n := b.count("status = 'completed'"); n != 5 {
		t.Errorf("%d of 5 completed after the worker resumed", n)
	}
	b.judge(8)
}

// When an executor starts, it tests the dead letter path with canaries, but no canary is stored as a dead
// letter.
func TestExecutorStartsLeaveNoDeadLetter(t *testing.T) {
	rounds := 2
	if testenv.All() {
		rounds = 10
	}
	b := startFixture(t, 3, 1)
	for range rounds {
		for _, e := range b.c.Executors {
			e.Instance().Kill()
		}
		// An executor is ready when its canary has returned.
		if err := forEachDaemon(b.c.Executors, func(d *Daemon) error { return d.Start(b.ctx) }); err != nil {
			t.Fatal(err)
		}
	}
	b.eventually("a canary reaches the dead letter handler", func() error {
		for _, e := range b.c.Executors {
			if page := b.metricsPage(e); strings.Contains(page, "\nhandoff_dead_letter_canaries_total ") {
				return nil
			}
		}
		return errors.New("no executor has counted one")
	})
	var stored int
	if err := b.db.QueryRow(b.ctx, "select count(*) from dead_letter").Scan(&stored); err != nil || stored != 0 {
		t.Errorf("%d dead letters are stored after %d starts (%v)", stored, 3*rounds, err)
	}
	for _, e := range b.c.Executors {
		if page := b.metricsPage(e); strings.Contains(page, "\nhandoff_dead_letters_total{") || !strings.Contains(page, "\nhandoff_dead_letter_path_broken 0\n") {
			t.Errorf("%s counts dead letters, or finds the path broken", e.Name)
		}
	}
	// In a live run, a metrics page with a single unknown figure is ignored as a whole.
	reader := scrape.New(alert.NewEvaluator(), 1)
	for _, d := range slices.Concat(b.c.Executors, b.c.Workers) {
		page := b.metricsPage(d)
		if err := reader.Take(d.Name, strings.NewReader(page)); err != nil || page == "" {
			t.Errorf("the page of %s, of %d bytes: %v", d.Name, len(page), err)
		}
	}
}

// metricsPage returns a daemon's metrics page; empty if the daemon doesn't answer.
func (f *fixture) metricsPage(d *Daemon) string {
	request, err := http.NewRequestWithContext(f.ctx, http.MethodGet, d.URL+"/metrics", http.NoBody)
	if err != nil {
		f.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}
