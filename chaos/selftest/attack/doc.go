// Command attack attacks Handoff as somebody could who can reach the API, publish to the broker,
// write an action or pass a file: the seventeen attempts of docs/attacks.md (S1 to S17) and a few
// more. It starts its own systems, with real servers and daemons that listen on this machine only.
// For each attempt it prints what the attempt cost or achieved, beside the threshold.
//
// Each attack is a file and a line of the table in attacks.go. The table names the limit of its
// time; an attack that reaches its limit counts as one that got through. An attack that breaks
// something does so in its own system, or restarts the parts that the next attack uses.
//
// Figures of processor time and memory are those of the attacked process, from the kernel. They are
// those of one request or one attack alone. A machine that is busy with other work inflates
// processor time a little, and seconds a lot.
package main
