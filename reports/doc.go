// Package reports turns verdicts and recorded histories into what people and machines read: a page
// for a person, JSON for tools, JUnit XML and Markdown for CI, and a history as JSON lines.
//
// A report answers, in this order: is it broken; which execution, when and by whom; which command
// shows it again; what was really tried; and only then, how it came about. It knows no world: the
// same code reports a simulated run, a live one and a production export.
//
// What is compared (result.json, history.jsonl) has the same bytes for the same results whatever
// machine ran them, so wall times stand apart, in timing.json.
package reports
