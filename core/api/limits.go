package api

import "time"

// These are all limits of single requests and of requests together. With them no request takes more
// than 100 ms of processor time or adds more than 32 MB of memory, and 32 requests at once add at
// most 256 MB; costs_test.go measures this. Limits of row content are where the row is written: 200
// characters of an action's name and 4096 of its entrypoint (core/config), 256 KB of a run's output
// (core/worker).

// Bodies.
const (
	// maxBody bounds the body of a request about one object: parameters of maxParameters, doubled
	// for escapes, and the other fields.
	maxBody = 1 << 20
	// maxBatchBody is enough for 15 executions with the largest parameters, or maxBatchItems with 4
	// KB each. Reading, checking and sending a megabyte takes 10 to 20 ms of processor time.
	maxBatchBody  = 4 << 20
	maxBatchItems = 1000
	// maxParameters bounds the parameters of one execution, which go through the database and to
	// the action.
	maxParameters = 256 << 10
	// maxJSONDepth bounds the nesting of a body, because the database's own parser is recursive.
	maxJSONDepth = 64
	// maxMistakes bounds the mistakes in one response, and reading ends there. The hundredth
	// mistake is rarely of a new kind, and only an attacker profits from reading on.
	maxMistakes = 100
	// maxPiece bounds the parameters in one statement of a batch, because the driver copies them
	// twice.
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
	// maxFieldName bounds the part of a field's name that is read: six bytes for each character
	// that a response repeats of it.
	maxFieldName = 500
	// maxActionRef is the longest name that an action can have; a longer one is refused without a
	// look-up.
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
	// maxPage bounds the bytes of one page. Rows of lists leave out parameters, results and bodies
	// and are smaller than 8 KB, so only pages with many long entrypoints or reasons reach it. The
	// rest goes to the next page.
	maxPage = 4 << 20
	// listWindow bounds how many executions one page looks through if no index serves its filter:
	// some 50 ms of the database. Older matches are on the next pages.
	listWindow = 50000
	// defaultDiscard and largestDiscard are how many open dead letters one bulk discard looks at.
	defaultDiscard = 500
	largestDiscard = 1000
	// mostPeriods is the largest number of periods that a summary may split its window into.
	mostPeriods   = 1000
	defaultWindow = 24 * time.Hour
	longestWindow = 31 * 24 * time.Hour
)

// Requests by filter.
const (
	// bulkWindows is how many windows of listWindow ids one step or count looks through.
	bulkWindows = 10
	// mostCounted is the largest count; a count beyond it goes on in the next request.
	mostCounted = 10000
	// largestBulk is how many executions one step deals with, and bulkPiece is for how many of them
	// it reads the parameters at once: at most 13 MB. A step ends early when it has repeated
	// maxBatchBody of parameters, or after bulkStepTime.
	largestBulk  = 500
	bulkPiece    = 50
	bulkStepTime = 10 * time.Second
	// idDisorder is how far the order of creation times may differ from that of the ids: a statement
	// reads the clock and takes its ids at different moments.
	idDisorder = 10 * time.Minute
)

// Concurrent requests. Each class has its own places, so that readers never block submissions. A
// request that finds all places of its class taken waits at most placeWait, and is then refused
// with 503 and Retry-After.
const (
	// placesOfLists: a list walks through tables and keeps a processor of the database busy. On a
	// database of two processors with 2 million rows, four at a time made the dispatch of an
	// execution five times as slow at its 99th percentile. With one it takes less than twice as
	// long there, and a tenth longer at its median (TestSchedulingBesideLists).
	placesOfLists = 1
	// placesOfBulk is for requests by filter, which walk through tables as lists do.
	placesOfBulk = 1
	// placesOfLarge are for requests whose body is longer than smallBody or of unknown length,
	// above all batches: one takes up to 16 MB while it is in progress. largeBodyWait is how long
	// its client may take to send it.
	placesOfLarge = 4
	largeBodyWait = 10 * time.Second
	smallBody     = 64 << 10
	// placesOfReads: a single row takes up to 6 MB, as a result of 256 KB may be six times as long
	// in JSON.
	placesOfReads = 16
	// placesOfWrites: these take less than 1 MB. Single executions are collected into batches at
	// the database, on four connections; further ones wait for a moment.
	placesOfWrites = 64
	// queueOfRequests is how many requests of a class may wait for a place; each holds at most a
	// small body.
	queueOfRequests = 2048
	// placeWait is shorter than the timeouts of usual clients.
	placeWait = 2 * time.Second
	// submitTimeout is how long a request waits for a database that is away before it is refused.
	submitTimeout = 10 * time.Second
)

// Streams of changes.
const (
	// maxStreams bounds the streams of one executor: each asks the database twice a second.
	maxStreams = 100
	// maxStreamsOfClient bounds the streams of one client address, so that no client has all
	// places.
	maxStreamsOfClient = 25
	// streamWrite is how long a client may take to accept data; then its stream is closed.
	streamWrite = 5 * time.Second
	// streamPage is how many changes one query reads. A change has at most 600 bytes, and the next
	// query runs only after the client has accepted the earlier changes, so at most 600 KB wait for
	// one client.
	streamPage = 1000
	// streamBuffer bounds the kernel's buffer for a client of a stream that does not read.
	streamBuffer = 64 << 10
)
