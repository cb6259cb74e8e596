// Command attack does to Handoff what somebody would who could reach the API, publish to the broker, write an
// action or hand over a file: the seventeen attempts of docs/attacks.md (S1 to S17) and a few beside them. It brings
// up systems of its own, real servers and daemons that listen on this machine only, and prints for each attempt
// what it cost or got, beside the threshold.
//
// Each attack is a file and a line of the table in attacks.go. It names the bound on its time; an attack that
// reaches its bound counts as one that got through. What an attack breaks, it breaks in a system of its own, or it
// restarts what the next one meets.
//
// Figures of processor time and memory are those of the attacked process, from the kernel. They hold for one
// request or one attack alone; a machine that is busy with other things inflates processor time a little and seconds
// a lot.
package main
