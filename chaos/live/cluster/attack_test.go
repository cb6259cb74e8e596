package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/servers"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/testenv"
)

// These are the attacks of docs/attacks.md that need real processes. The packages that the page names test
// its other attacks.

// garbageVariable sets the number of unreadable messages ahead of a good execution. The default is
// 1,000, 5,000 in make test-all, and 200,000 in .ci/attack.
const garbageVariable = "HANDOFF_TEST_GARBAGE"

// An execution starts no matter how many unreadable messages precede it in its worker's queue; make test-all
// demands five seconds. The worker's log stays below 1 MB, and every message is stored.
func TestExecutionBehindGarbageStartsInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole system")
	}
	garbage := 1000
	if testenv.All() {
		garbage = 5000
	}
	if n, err := strconv.Atoi(os.Getenv(garbageVariable)); err == nil {
		garbage = n
	}
	b := startFixture(t, 1, 1)
	b.publishGarbage(garbage)
	began := time.Now()
	b.submit("quick", 1)
	b.eventually("the execution has started", func() error {
		if b.count("started_at is not null") == 0 {
			return fmt.Errorf("it has not")
		}
		return nil
	})
	var took time.Duration
	if err := b.db.QueryRow(b.ctx, "select started_at - created from execution where id = 1").Scan(&took); err != nil {
		t.Fatal(err)
	}
	letters := func() (n int) {
		if err := b.db.QueryRow(b.ctx, "select count(*) from dead_letter where body_bytes > 0").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Logf("%d messages: started after %v (%v on the clock of this test), with %d of them stored", garbage, took, time.Since(began), letters())
	if testenv.All() && took > 5*time.Second {
		t.Errorf("it started after %v", took)
	}
	b.eventually("every message is stored", func() error {
		if n := letters(); n < garbage {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	log, err := os.ReadFile(b.c.Workers[0].Instance().Log())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("all stored after %v, log of the worker: %d bytes", time.Since(began), len(log))
	if len(log) > 1<<20 {
		t.Errorf("the worker's log has %d bytes", len(log))
	}
	b.awaitSettled()
	response, err := http.Get(b.c.Executors[0].URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/readyz of the executor: %s", response.Status)
	}
}

// publishGarbage publishes unreadable messages to the first worker's queue. The first ones, which can't
// expire there, have headers that would end the broker's dead lettering.
func (f *fixture) publishGarbage(n int) {
	f.publish(broker.WorkerQueue(1), n, func(i int) amqp.Publishing {
		m := amqp.Publishing{Body: []byte("\x1b[2J{\"message_type\": \xff")}
		if i < 20 {
			m.Headers = hostileDeaths()
		}
		return m
	})
}

// hostileDeaths returns an x-death header that makes RabbitMQ 3.10 fail when it adds a death.
func hostileDeaths() amqp.Table {
	return amqp.Table{"x-death": []any{amqp.Table{"queue": "q", "reason": int32(5), "count": "x"}, int32(3)}}
}

// publish sends n persistent messages to a queue, as any client of the broker could.
func (f *fixture) publish(queue string, n int, message func(i int) amqp.Publishing) {
	f.t.Helper()
	conn, err := amqp.Dial(f.c.Servers.RabbitMQ.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		f.t.Fatal(err)
	}
	var last *amqp.DeferredConfirmation
	for i := range n {
		m := message(i)
		m.DeliveryMode = amqp.Persistent
		if last, err = ch.PublishWithDeferredConfirmWithContext(f.ctx, "", queue, false, false, m); err != nil {
			f.t.Fatal(err)
		}
	}
	if ok, err := last.WaitContext(f.ctx); !ok || err != nil {
		f.t.Fatalf("not confirmed: %v", err)
	}
}

// TestAttacksOnRunningDaemons tests protections that depend on a program's main function: the API's host
// guard, the isolation of actions from their worker, and the worker's check of cancellations.
func TestAttacksOnRunningDaemons(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole system")
	}
	b := startFixture(t, 1, 1)
	t.Run("a page of another site", func(t *testing.T) {
		for host, want := range map[string]int{"evil.example:8080": http.StatusForbidden, "127.0.0.1.evil.example": http.StatusForbidden, "localhost": http.StatusCreated} {
			if status, text := b.request(t, http.MethodPost, "/api/v1/executions", `{"action_ref":"quick"}`, "Host", host); status != want {
				t.Errorf("Host %s: %d %s", host, status, text)
			}
		}
	})
	t.Run("an action that looks for secrets of its worker", func(t *testing.T) {
		id := b.startExecution(t, "spy")
		if status := b.awaitEnd(id); status != "completed" {
			t.Fatalf("it is %s", status)
		}
		var found string
		if err := b.db.QueryRow(b.ctx, "select result ->> 'output' from execution where id = $1", id).Scan(&found); err != nil {
			t.Fatal(err)
		}
		if found != "worker\n" {
			t.Errorf("it printed %q, want its worker's name only", found)
		}
	})
	t.Run("a forged cancellation", func(t *testing.T) {
		id := b.startExecution(t, "patient")
		forged, err := broker.Encode(&broker.Envelope{
			MessageID: "forged", Type: broker.ExecutionCancel, Timestamp: time.Now(), Version: broker.WireVersion,
			Changes: []broker.Change{{Key: execution.Key{ID: id, Epoch: 1}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.publish(broker.CancelQueue(1), 3, func(int) amqp.Publishing { return amqp.Publishing{Body: forged} })
		if status := b.awaitEnd(id); status != "completed" {
			t.Errorf("the action of a forged cancellation is %s", status)
		}
		id = b.startExecution(t, "patient")
		if status, text := b.request(t, http.MethodPost, fmt.Sprintf("/api/v1/executions/%d/cancel", id), ""); status != http.StatusAccepted {
			t.Fatalf("a real cancellation: %d %s", status, text)
		}
		if status := b.awaitEnd(id); status != "cancelled" {
			t.Errorf("the action of a real cancellation is %s", status)
		}
	})
}

// request sends a request to the first executor, with headers in pairs, and returns the response.
func (f *fixture) request(t *testing.T, method, path, body string, headers ...string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(f.ctx, method, f.c.Executors[0].URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}

// startExecution creates an execution and waits until it has started.
func (f *fixture) startExecution(t *testing.T, action string) (id execution.ID) {
	t.Helper()
	status, text := f.request(t, http.MethodPost, "/api/v1/executions", fmt.Sprintf(`{"action_ref":%q}`, action))
	if _, err := fmt.Sscanf(text, `{"id":%d,`, &id); status != http.StatusCreated || err != nil {
		t.Fatalf("creating an execution of %s: %d %s", action, status, text)
	}
	f.eventually("the execution has started", func() error {
		if f.count(fmt.Sprintf("started_at is not null and id = %d", id)) == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	return id
}

// awaitEnd waits for the end of an execution and returns its status.
func (f *fixture) awaitEnd(id execution.ID) (status string) {
	f.t.Helper()
	f.eventually("the execution has ended", func() error {
		return f.db.QueryRow(f.ctx, "select status from execution where id = $1 and ended is not null", int64(id)).Scan(&status)
	})
	return status
}

func TestExecutorRevealsNothingWithoutToken(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole system")
	}
	const token = "s3cr3t-s3cr3t-s3cr3t"
	env := calmEnv()
	env["HANDOFF_API_TOKEN"] = token
	b := startFixtureWith(t, env, 1, 0)
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/metrics": 200, "/playbooks/": 200, "/api/v1/executions": 401, "/api/v1/changes": 401, "/playbooks/../api/v1/workers": 401,
	} {
		status, text := b.request(t, http.MethodGet, path, "")
		if status != want || strings.Contains(text, token) || strings.Contains(text, "postgres://") || strings.Contains(text, "amqp://") {
			t.Errorf("%s: %d, want %d and no secret\n%s", path, status, want, text)
		}
	}
	if status, text := b.request(t, http.MethodGet, "/api/v1/executions", "", "Authorization", "Bearer "+token); status != http.StatusOK {
		t.Errorf("with the token: %d %s", status, text)
	}
	if log, err := os.ReadFile(b.c.Executors[0].Instance().Log()); err != nil || strings.Contains(string(log), token) {
		t.Errorf("the log shows the token, or is not there: %v", err)
	}
}

// In RabbitMQ 3.10, a message with hostile headers breaks dead lettering when it expires. Nothing can prevent
// that, so executors must report it. The test has its own servers, because it breaks the broker.
func TestReadyzReportsDeadLetteringBrokenByHeaders(t *testing.T) {
	testenv.Nightly(t, "starts separate servers, and takes half a minute")
	c, err := Up(t.Context(), Options{Bin: binaries, Executors: 1, Workers: 1, Env: calmEnv()})
	servers.Require(t, err)
	t.Cleanup(func() { _ = c.Down() }) // the test has broken its dead lettering
	b := &fixture{t: t, ctx: t.Context(), c: c}
	b.connect()
	worker := c.Workers[0].Instance()
	worker.Terminate()
	ctx, cancel := context.WithTimeout(b.ctx, testenv.Patience())
	defer cancel()
	if err := worker.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	const letters = 10
	b.publish(broker.WorkerQueue(1), letters, func(i int) amqp.Publishing {
		m := amqp.Publishing{Body: []byte("garbage"), Expiration: "50"}
		if i == 0 {
			m.Headers = hostileDeaths()
		}
		return m
	})
	// The executor tests the dead letter path sooner after an unreadable message.
	b.publish(broker.QueueRequested, 1, func(int) amqp.Publishing { return amqp.Publishing{Body: []byte("garbage")} })
	const canaryInterval, canaryWait = 5 * time.Minute, 10 * time.Second // the bound that docs/attacks.md states
	for began := time.Now(); ; time.Sleep(time.Second) {
		var arrived int
		if err := b.db.QueryRow(b.ctx, "select count(*) from dead_letter where queue like 'worker.%'").Scan(&arrived); err != nil {
			t.Fatal(err)
		}
		if arrived == letters {
			t.Skip("this broker keeps dead lettering: it does not have the defect")
		}
		if status, text := b.request(t, http.MethodGet, "/readyz", ""); status != http.StatusOK {
			t.Logf("after %v, with %d of %d dead letters: %s", time.Since(began), arrived, letters, text)
			return
		}
		if time.Since(began) > canaryInterval+canaryWait {
			t.Fatalf("/readyz is still ok, with %d of %d dead letters", arrived, letters)
		}
	}
}
