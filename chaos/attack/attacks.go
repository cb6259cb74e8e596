//go:build linux

package main

import (
	"context"
	"time"
)

// attack is one attempt.
type attack struct {
	// id is that of docs/attacks.md; those that begin with X are not in it.
	id, title string
	// tried says in a line what is done.
	tried string
	// within bounds the attempt.
	within time.Duration
	// aside says that it has a system of its own and mostly waits, so that it goes on beside the others.
	aside bool
	// try does it and records what it saw. An error is one of the attempt itself, not of what is attacked.
	try func(ctx context.Context, l *lab, r *result) error
}

// attacks are all that there are, in the order in which they are tried.
var attacks = []attack{
	{id: "S1", title: "bodies that cost processor time", within: 100 * time.Second, try: costlyBodies, tried: "60,000 unknown fields, 1.3 million in a batch whose client leaves, long names, deep nesting, 1,000 mistakes, a long number"},
	{id: "S2", title: "lists of large rows", within: 100 * time.Second, try: bigLists, tried: "500 executions of 255 KB, a chain, long actions, dead letters of 1 and 20 MB, one client and 32 at once"},
	{id: "S3", title: "names that were made to lead here (DNS rebinding)", within: 90 * time.Second, try: foreignHosts, tried: "POST with foreign Host, Origin, X-Forwarded-Host and request line to the API and to the control port of chaos up"},
}
