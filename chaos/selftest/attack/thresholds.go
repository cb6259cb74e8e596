//go:build linux

package main

import "time"

// The thresholds of docs/attacks.md, which were set before the work that they judge. A test
// compares them with the page.
const (
	// requestProcessor bounds the processor time of any single request, including work that goes on
	// after its client has gone.
	requestProcessor = 100 * time.Millisecond
	// requestMemory bounds the memory that one request adds to the process. crowdMemory bounds that
	// of crowd requests at the same time.
	requestMemory = 32 << 20
	crowdMemory   = 256 << 20
	crowd         = 32
	// mistakesListed bounds the mistakes that one answer lists.
	mistakesListed = 100
	// garbage is how many unreadable messages are sent. garbageLog bounds the size of the log lines
	// that they cause together. garbageStart bounds how long a good execution behind them waits for
	// its start.
	garbage      = 200_000
	garbageLog   = 1 << 20
	garbageStart = 5 * time.Second
	// canaryInterval is how often an executor tests the dead letter path.
	canaryInterval = 5 * time.Minute
	// checkSignal bounds how long `chaos check` takes to obey a signal. checkMemory bounds its
	// memory beyond the size of the file.
	checkSignal = time.Second
	checkMemory = 64 << 20
	// wholeRun bounds the time of make attack.
	wholeRun = 10 * time.Minute
)

// The page has no threshold for these; a caller may expect them.
const (
	// placesFree is how long clients that don't read may keep others from the stream of changes.
	placesFree = 10 * time.Second
	// answerWithin is how long another client may wait for an ordinary answer meanwhile.
	answerWithin = time.Second
)
