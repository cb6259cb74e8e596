//go:build linux

package main

import (
	"context"
	"time"
)

// attack is one attempt.
type attack struct {
	// id is the number in docs/attacks.md. Attacks that begin with X are not in it.
	id, title string
	// tried says in a line what the attack does.
	tried string
	// within bounds the attempt.
	within time.Duration
	// aside says that the attack has its own system and mostly waits, so that it runs beside the
	// others.
	aside bool
	// try runs the attack and records its findings. An error is a failure of the attack itself, not
	// of the attacked system.
	try func(ctx context.Context, l *lab, r *result) error
}

// attacks are all attacks, in the order in which they run.
var attacks = []attack{
	{id: "S1", title: "requests that cost processor time", within: 150 * time.Second, try: costlyRequests, tried: "60,000 unknown fields, 1.3 million in a batch whose client leaves, long names, deep nesting, 1,000 mistakes, a long number, 90,000 parameters; halved until they are let in"},
	{id: "S2", title: "lists of large rows, and large bodies at once", within: 200 * time.Second, try: bigLists, tried: "500 executions of 255 KB, a chain, long actions, dead letters of 1 and 20 MB, one client and 32 at once; 32 batches of 7.8 MB at once"},
	{id: "S3", title: "names that were made to lead here (DNS rebinding)", within: 90 * time.Second, try: foreignHosts, tried: "POST with foreign Host, Origin, X-Forwarded-Host and request line to the API and to the control port of chaos up"},
	{id: "S4", title: "an API beyond this machine without a token", within: 40 * time.Second, try: exposed, tried: "executor --listen with four ways to say every address and one beyond loopback, in a network of its own"},
	{id: "S5", title: "hostile headers end dead lettering", within: 7 * time.Minute, aside: true, try: hostileHeaders, tried: "x-death of other types on a message that the worker rejects, then on one that expires; garbage behind both"},
	{id: "S6", title: "secrets of the worker", within: 100 * time.Second, try: findSecrets, tried: "an action reads its environment, /proc/*/environ, memory and descriptors of its shim and worker, traces them, asks for a core"},
	{id: "S7", title: "what an action leaves behind", within: 150 * time.Second, try: leftBehind, tried: "actions kill or stop their shim, kill the worker, forge their end, respawn, fork 150 times, fill the disk"},
	{id: "S8", title: "hostile histories for chaos check", within: 120 * time.Second, try: histories, tried: "times without end, 200,000 open executions, lines of 60 MB, headers that name files, control characters"},
	{id: "S9", title: "text that is no UTF-8", within: 60 * time.Second, try: notText, tried: "%ff in every filter and name"},
	{id: "S10", title: "queries with a semicolon", within: 40 * time.Second, try: semicolons, tried: "filters behind ; and broken escapes"},
	{id: "S11", title: "a forged cancellation", within: 90 * time.Second, try: forgedCancel, tried: "a hint for a running action, published to its worker's queue; then a real cancellation"},
	{id: "S12", title: "200,000 unreadable messages", within: 170 * time.Second, try: garbageFlood, tried: "published to a worker's queue as fast as the broker takes them, then an execution for that worker"},
	{id: "S13", title: "what needs no token", within: 60 * time.Second, try: withoutToken, tried: "every path without the token, with what is none, and written in other ways"},
	{id: "S14", title: "rows that no daemon has written", within: 60 * time.Second, try: handMadeRows, tried: "results, parameters and capabilities of another kind, and the lists that they are in"},
	{id: "S15", title: "descriptors that actions inherit", within: 60 * time.Second, try: inheritedDescriptors, tried: "a worker that was started with an open descriptor 9"},
	{id: "S16", title: "100 clients of /changes that don't read", within: 110 * time.Second, try: deafStreams, tried: "with 30,000 changes to tell; then a client that reads"},
	{id: "S17", title: "bodies that say they are something else", within: 40 * time.Second, try: encodings, tried: "charset and Content-Encoding"},
	{id: "X1", title: "links out of the actions directory", within: 90 * time.Second, try: links, tried: "symbolic links to scripts and folders outside, and paths"},
}
