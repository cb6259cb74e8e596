//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// answer is the response to a request.
type answer struct {
	status int
	// bytes is the length of the body, head its beginning.
	bytes int64
	head  []byte
	took  time.Duration
	// err is set if no complete answer came.
	err error
}

// headKept is how much of a body is kept.
const headKept = 1 << 20

// String is the answer in one word.
func (a answer) String() string {
	if a.err != nil && a.status == 0 {
		return "no answer"
	}
	return fmt.Sprint(a.status)
}

// client keeps no connection, so that no request meets the remains of an earlier one.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// ask sends a request, with the token, and reads the answer to its end.
func (s *system) ask(ctx context.Context, method, path string, body []byte, header http.Header) answer {
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, method, s.api+path, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	for name, values := range header {
		if name == "Host" {
			request.Host = values[0]
			continue
		}
		request.Header[name] = values
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{err: err, took: time.Since(began)}
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode}
	a.head, err = io.ReadAll(io.LimitReader(response.Body, headKept))
	rest, restErr := io.Copy(io.Discard, response.Body)
	if err == nil {
		err = restErr
	}
	a.bytes, a.err, a.took = int64(len(a.head))+rest, err, time.Since(began)
	return a
}

// get asks for a path.
func (s *system) get(ctx context.Context, path string) answer {
	return s.ask(ctx, http.MethodGet, path, nil, nil)
}

// post sends a value as JSON.
func (s *system) post(ctx context.Context, path string, v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		return answer{err: err}
	}
	return s.ask(ctx, http.MethodPost, path, body, nil)
}

// fields is a JSON object.
type fields = map[string]any

// action stores an action without retries.
func (s *system) action(ctx context.Context, ref, runtime, entrypoint string, timeout int) error {
	a := s.post(ctx, "/api/v1/actions", fields{"ref": ref, "runtime": runtime, "entrypoint": entrypoint, "timeout_seconds": timeout, "max_retries": 0})
	if a.status != http.StatusOK {
		return fmt.Errorf("storing the action %s: %v %s", ref, a, a.head)
	}
	return nil
}

// ran is an execution as the API returns it.
type ran struct {
	ID     int64   `json:"id"`
	Status string  `json:"status"`
	Worker *int64  `json:"worker"`
	Epoch  int64   `json:"epoch"`
	Reason *string `json:"failure_reason"`
	Result *struct {
		Output  json.RawMessage `json:"output"`
		Message string          `json:"message"`
	} `json:"result"`
	Created string  `json:"created"`
	Started *string `json:"started_at"`
	Cancel  *string `json:"cancel_requested_at"`
}

// create creates an execution. worker is the only worker that may run it, 0 for any.
func (s *system) create(ctx context.Context, ref string, worker int64) (int64, error) {
	v := fields{"action_ref": ref}
	if worker != 0 {
		v["worker_id"] = worker
	}
	a := s.post(ctx, "/api/v1/executions", v)
	var created ran
	if a.status != http.StatusCreated || json.Unmarshal(a.head, &created) != nil {
		return 0, fmt.Errorf("creating an execution of %s: %v %s", ref, a, a.head)
	}
	return created.ID, nil
}

// look reads an execution.
func (s *system) look(ctx context.Context, id int64) (ran, error) {
	a := s.get(ctx, fmt.Sprintf("/api/v1/executions/%d", id))
	var e ran
	if a.status != http.StatusOK {
		return e, fmt.Errorf("looking at execution %d: %v %s", id, a, a.head)
	}
	return e, json.Unmarshal(a.head, &e)
}

// ended are the terminal statuses.
var ended = []string{"completed", "failed", "cancelled", "timeout", "abandoned"}

// await waits until an execution has one of the statuses, and returns it in its state then, or when
// the time is over.
func (s *system) await(ctx context.Context, id int64, within time.Duration, statuses ...string) (ran, error) {
	var e ran
	var err error
	until(ctx, within, func() bool {
		e, err = s.look(ctx, id)
		return err == nil && slices.Contains(statuses, e.Status)
	})
	return e, err
}

// run runs an action to its end.
func (s *system) run(ctx context.Context, ref, entrypoint string, timeout int, worker int64, within time.Duration) (ran, error) {
	if err := s.action(ctx, ref, "shell", entrypoint, timeout); err != nil {
		return ran{}, err
	}
	id, err := s.create(ctx, ref, worker)
	if err != nil {
		return ran{}, err
	}
	return s.await(ctx, id, within, ended...)
}

// workerID is the worker's id in the database.
func (s *system) workerID(ctx context.Context, name string) (int64, error) {
	var id int64
	err := s.db.QueryRow(ctx, "select id from worker where name = $1", name).Scan(&id)
	return id, err
}
