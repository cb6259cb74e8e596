// Package product is the client of runs whose system under test is Handoff itself. It uses the same
// functions as the handlers of the API, without HTTP, so it can submit while executors are down.
package product

import (
	"context"
	"fmt"

	"handoff/chaos/run"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/submission"
)

// Client implements run.Client.
type Client struct {
	API *submission.Submitter
	// WorkerID returns the id of the worker with a name, or 0 if no worker has registered under that name. It
	// must be safe for concurrent use.
	WorkerID func(name string) execution.WorkerID
}

var _ run.Client = (*Client)(nil)

// Registered implements run.Client.
func (c *Client) Registered(worker string) bool { return c.WorkerID(worker) != 0 }

// Submit implements run.Client.
func (c *Client) Submit(ctx context.Context, requests []run.Request) ([]run.Answer, error) {
	items := make([]store.NewExecution, len(requests))
	for i := range requests {
		r := &requests[i]
		items[i] = store.NewExecution{ActionRef: r.Action, IdempotencyKey: r.Key, Parent: r.Parent, Limits: r.Limits}
		if r.Pin != "" {
			items[i].Pinned = c.WorkerID(r.Pin)
		}
	}
	created, err := c.API.Submit(ctx, items)
	if err != nil {
		return nil, fmt.Errorf("submitting %d executions, the first under the idempotency key %q: %w", len(items), items[0].IdempotencyKey, err)
	}
	answers := make([]run.Answer, len(created))
	for i := range created {
		answers[i] = run.Answer{ID: created[i].ID, Existed: created[i].Existed, Refused: refusalText(&requests[i], &created[i])}
	}
	return answers, nil
}

// refusalText returns why a request created no execution, or "" if it created one.
func refusalText(r *run.Request, c *store.Created) string {
	switch {
	case c.UnknownAction:
		return fmt.Sprintf("the request %q names the action %s, which does not exist", r.Key, r.Action)
	case c.UnknownParent:
		return fmt.Sprintf("the request %q names the parent %d, which does not exist", r.Key, r.Parent)
	case c.UnknownWorker:
		return fmt.Sprintf("the request %q is pinned to %s, which has never registered", r.Key, r.Pin)
	}
	return ""
}

// Cancel implements run.Client.
func (c *Client) Cancel(ctx context.Context, id execution.ID) error {
	_, err := c.API.Cancel(ctx, id, "")
	return err
}
