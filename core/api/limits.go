package api

import "time"

// This file defines all limits on single and concurrent requests. They keep a request below 100 ms of
// processor time and 32 MB of memory, and 32 concurrent requests below 256 MB; costs_test.go measures this.
// Limits on the content of rows are defined where the rows are written: 200 characters of an action's name
// and 4096 of its entrypoint (core/config), 256 KB of a run's output (core/worker).

// Bodies.
const (
	// maxBody bounds the body of a request about one object: parameters of maxParameters, doubled
	// for escapes, and the other fields.
	maxBody = 1 << 20
	// maxBatchBody has room for 15 executions with the largest parameters, or for maxBatchItems of 4 KB each.
	// Reading, checking and sending a megabyte takes 10 to 20 ms of processor time.
	maxBatchBody  = 4 << 20
	maxBatchItems = 1000
	// maxParameters bounds the parameters of one execution, which go through the database and to the action.
	maxParameters = 256 << 10
	// maxJSONDepth bounds the nesting of a body, because the database's own parser is recursive.
	maxJSONDepth = 64
	// maxMistakes bounds the mistakes in one response; reading ends there. A hundredth mistake rarely tells a
	// client anything new, and reading on would only help an attacker.
	maxMistakes = 100
	// maxPiece bounds the parameters in one statement of a batch, because the driver copies them twice.
	maxPiece = 1 << 20
	// maxCompared bounds the parameters that one request compares by meaning, which takes forty
	// times the work of comparing bytes. It is twice the parameters of two executions. Identical
	// bytes are never compared by meaning.
	maxCompared = 1 << 20
)

// Texts.
const (
	// maxIdempotencyKey bounds a key, which is part of an index.
	maxIdempotencyKey = 255
	// maxFieldName bounds the part of a field's name that is read: six bytes for each character that a
	// response quotes.
	maxFieldName = 500
	// maxActionRef is the length of the longest name of an action; a longer one is refused without a query.
	maxActionRef = 200
	// maxCordonReason bounds an operator's reason for a cordon, in characters.
	maxCordonReason = 500
	// maxParameterCount bounds the parameters of a query: no endpoint has more than seven.
	maxParameterCount = 32
)

// Lists.
const (
	defaultPage = 50
	largestPage = 500
	// maxPage bounds the bytes of one page. Rows of lists leave out parameters, results and bodies and are
	// smaller than 8 KB, so only pages with many long entrypoints or reasons reach it. The remaining rows are
	// on the next page.
	maxPage = 4 << 20
	// listWindow is the maximum number of executions that one page scans if no index matches its filter:
	// about 50 ms of database time. Older matches are on the next pages.
	listWindow = 50000
	// defaultDiscard and largestDiscard are how many open dead letters one bulk discard examines.
	defaultDiscard = 500
	largestDiscard = 1000
	// mostPeriods is the largest number of periods that a summary may split its window into.
	mostPeriods   = 1000
	defaultWindow = 24 * time.Hour
	longestWindow = 31 * 24 * time.Hour
)

// Requests by filter.
const (
	// bulkWindows is how many windows of listWindow ids one step or count scans.
	bulkWindows = 10
	// mostCounted is the largest count; a larger one continues in the next request.
	mostCounted = 10000
	// largestBulk is how many executions one step handles. bulkPiece is the number of executions whose
	// parameters it reads at once: at most 13 MB. A step ends early after maxBatchBody of parameters or after
	// bulkStepTime.
	largestBulk  = 500
	bulkPiece    = 50
	bulkStepTime = 10 * time.Second
	// idDisorder bounds how far creation times and ids can be out of order: a statement does not read the
	// clock and draw its ids at the same moment.
	idDisorder = 10 * time.Minute
)

// Concurrent requests. Each class has its own places, so that readers never block submissions. If all places
// of its class are taken, a request waits at most placeWait. Then it is refused with 503 and Retry-After.
const (
	// placesOfLists: a list scans tables and keeps one of the database's processors busy. On a database with
	// two processors and 2 million rows, four concurrent lists made the dispatch of an execution five times
	// as slow at the 99th percentile. One list makes it less than twice as slow there, and a tenth slower at
	// the median (TestSchedulingBesideLists).
	placesOfLists = 1
	// placesOfBulk is for requests by filter, which scan tables as lists do.
	placesOfBulk = 1
	// placesOfLarge is for requests whose body is longer than smallBody or of unknown length, mainly batches:
	// each takes up to 16 MB. largeBodyWait is how long the client may take to send the body.
	placesOfLarge = 4
	largeBodyWait = 10 * time.Second
	smallBody     = 64 << 10
	// placesOfReads: a single row takes up to 6 MB, because JSON may make a result of 256 KB six times as
	// long.
	placesOfReads = 16
	// placesOfWrites: each write takes less than 1 MB. Single executions are written in batches on four
	// connections, so additional ones wait briefly.
	placesOfWrites = 64
	// queueOfRequests is how many requests of a class may wait for a place; each holds at most a small body.
	queueOfRequests = 2048
	// placeWait is shorter than the timeouts of usual clients.
	placeWait = 2 * time.Second
	// submitTimeout is how long a request waits for an unavailable database before it is refused.
	submitTimeout = 10 * time.Second
)

// Streams of changes.
const (
	// maxStreams bounds the streams of one executor: each queries the database twice a second.
	maxStreams = 100
	// maxStreamsOfClient bounds the streams of one client address, so that no client takes all places.
	maxStreamsOfClient = 25
	// streamWrite is how long a client may take to accept data before its stream is closed.
	streamWrite = 5 * time.Second
	// streamPage is how many changes one query reads. A change has at most 600 bytes, and the next query runs
	// only after the client has accepted the earlier changes, so at most 600 KB wait for one client.
	streamPage = 1000
	// streamBuffer bounds the kernel's buffer of data that a stream's client has not read.
	streamBuffer = 64 << 10
)
