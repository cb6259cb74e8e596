//go:build linux

package main

import "time"

// The thresholds of docs/attacks.md, which stood before the work that they judge. A test holds them to the page.
const (
	// requestProcessor bounds the processor time of any single request, and what goes on after its client has gone.
	requestProcessor = 100 * time.Millisecond
	// requestMemory bounds what one request adds to the memory of the process, crowdMemory what crowd of them at
	// once add.
	requestMemory = 32 << 20
	crowdMemory   = 256 << 20
	crowd         = 32
	// mistakesListed bounds the mistakes that one answer lists.
	mistakesListed = 100
	// garbage is how many unreadable messages are sent, garbageLog how much log they may cause together, and
	// garbageStart how long a good execution behind them may wait for its start.
	garbage      = 200_000
	garbageLog   = 1 << 20
	garbageStart = 5 * time.Second
	// canaryInterval is how often an executor tests the dead letter path.
	canaryInterval = 5 * time.Minute
	// checkSignal bounds how long `chaos check` takes to obey a signal, checkMemory what it needs beyond the size of
	// the file.
	checkSignal = time.Second
	checkMemory = 64 << 20
	// wholeRun bounds make attack.
	wholeRun = 10 * time.Minute
)

// The page has no threshold for these; they are what a caller may expect.
const (
	// placesFree is how long clients that don't read may keep others from the stream of changes.
	placesFree = 10 * time.Second
	// answerWithin is how long another client may wait for an ordinary answer meanwhile.
	answerWithin = time.Second
)
