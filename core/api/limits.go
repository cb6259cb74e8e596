package api

import "time"

// These are all limits of one request and of requests together. With them no request takes more than 100 ms of a
// processor or adds more than 32 MB of memory, and 32 requests at once add at most 256 MB; costs_test.go measures it.
// Limits of what a row holds stand where the row is written: 200 characters of an action's name and 4096 of its
// entrypoint (core/config), 256 KB of a run's output (core/worker).

// Bodies.
const (
	// maxBody bounds the body of a request that is about one thing: parameters of maxParameters, doubled for escapes,
	// and the other fields.
	maxBody = 1 << 20
	// maxBatchBody is 15 executions with the largest parameters, or maxBatchItems with 4 KB each. To read, check and send
	// on a megabyte takes 10 to 20 ms of a processor.
	maxBatchBody  = 4 << 20
	maxBatchItems = 1000
	// maxParameters bounds what one execution carries: it goes through the database and to the action.
	maxParameters = 256 << 10
	// maxJSONDepth bounds the nesting of a body; the database's own parser is recursive.
	maxJSONDepth = 64
	// maxMistakes bounds what one answer lists, and reading ends there: the hundredth mistake is rarely of another kind
	// than those before it, and to read on after it is work that only an attacker asks for.
	maxMistakes = 100
	// maxPiece bounds the parameters that one statement of a batch carries: the driver copies them twice.
	maxPiece = 1 << 20
	// maxCompared bounds the parameters that one request compares by meaning, which is forty times the work of comparing
	// bytes: twice what two executions can carry. Identical bytes are never compared by meaning.
	maxCompared = 1 << 20
)

// Texts.
const (
	// maxIdempotencyKey bounds a key: it is a part of an index.
	maxIdempotencyKey = 255
	// maxFieldName bounds what is read of a field's name: six bytes for each character that an answer repeats of it.
	maxFieldName = 500
	// maxActionRef is the longest name that an action can have; a longer one is refused unread.
	maxActionRef = 200
	// maxCordonReason bounds what an operator writes, in characters.
	maxCordonReason = 500
	// maxParameterCount bounds the parameters of a query: no endpoint knows more than seven.
	maxParameterCount = 32
)

// Lists.
const (
	defaultPage = 50
	largestPage = 500
	// maxPage bounds the bytes of one page. Rows of lists leave out parameters, results and bodies and are smaller than
	// 8 KB, so only pages of many long entrypoints or reasons get there. What the page has no room for is on the next one.
	maxPage = 4 << 20
	// listWindow bounds how many executions one page of a filter looks through that no index serves: some 50 ms of the
	// database. What passes the filter farther back is on the next pages.
	listWindow = 50000
	// defaultDiscard and largestDiscard are how many open dead letters one bulk discard looks at.
	defaultDiscard = 500
	largestDiscard = 1000
	// mostPeriods is into how many periods a summary may split its window.
	mostPeriods   = 1000
	defaultWindow = 24 * time.Hour
	longestWindow = 31 * 24 * time.Hour
)

// Requests at once. A class has places of its own, so that readers never keep work from being submitted. A request that
// finds all places of its class taken waits, at most placeWait, and is then refused with 503 and Retry-After.
const (
	// placesOfLists: a list walks through tables, each on a connection of its own. Four of them leave half of the API's
	// connections (database.api_connections, 8) to the others, and at 4 MB a page about 64 MB of memory.
	placesOfLists = 4
	// placesOfLarge are for requests whose body is longer than smallBody or of unknown length, batches above all: one
	// takes up to 16 MB while it is under way. largeBodyWait is how long its client may take to send it.
	placesOfLarge = 4
	largeBodyWait = 10 * time.Second
	smallBody     = 64 << 10
	// placesOfReads: a single row takes up to 6 MB, as a result of 256 KB may be six times as long in JSON.
	placesOfReads = 16
	// placesOfWrites: these take less than 1 MB. Executions that come one by one gather in batches at the database,
	// on four connections, and whoever comes beyond that waits for a moment.
	placesOfWrites = 64
	// queueOfRequests is how many requests of a class may wait for a place; each holds a small body at most.
	queueOfRequests = 2048
	// placeWait is shorter than the patience of usual clients.
	placeWait = 2 * time.Second
	// submitTimeout is how long a request waits for a database that is away, before it is refused.
	submitTimeout = 10 * time.Second
)

// Streams of changes.
const (
	// maxStreams bounds the streams of one executor: each asks the database twice a second.
	maxStreams = 100
	// maxStreamsOfClient is what one client address may hold of them, so that no client has all places.
	maxStreamsOfClient = 25
	// streamWrite is how long a client may take to accept what is sent to it; then it is dropped.
	streamWrite = 5 * time.Second
	// streamPage is how many changes are looked at in one go. A change is at most 600 bytes, and nothing is read from
	// the database before the client has taken what came before: so at most 600 KB wait for one client.
	streamPage = 1000
	// streamBuffer is how much the kernel may hold for a client of a stream that does not read.
	streamBuffer = 64 << 10
)
