// Package reports writes verdicts and recorded histories: an HTML page for people, JSON for tools, JUnit XML
// and Markdown for CI, and histories as JSON lines.
//
// A report answers, in this order: whether anything is broken; which execution failed, when and by which
// process; which command reproduces it; what was really tested; and how it happened. It doesn't depend on a
// world: the same code reports a simulated run, a live run and a production export.
//
// Files that are compared (result.json, history.jsonl) have the same bytes for the same results on every
// machine, so wall times are in a separate file, timing.json.
package reports
