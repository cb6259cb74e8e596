// Package subprocess runs actions on a real machine: each in a process group of its own, under a
// small shim that ends it when its worker's right to run it is over.
//
// # Why no action outlives its worker's right to run it
//
// A worker that can't renew its lease has to be gone, with everything it started, before the lease is
// over. It can't be trusted to see to that itself: it may have been killed, it may be stopped
// (SIGSTOP, a debugger, memory pressure), it may be starved. So between the worker and each action
// stands a shim, the worker's own binary started again, which the right is lent to for a time:
//
//   - The worker hands the shim a fence, a moment at which the shim kills the action, and a later one
//     after each renewal. A worker that stands still hands over nothing, so the fence comes. The fence
//     is lent as time that remains together with the reading of the machine's clock it was measured
//     at, so a message that was under way while the worker stood still lends nothing extra.
//   - The shim measures on CLOCK_BOOTTIME, which goes on while the machine is suspended, and is woken
//     by a timer on that clock. The worker's own clock may stand still then; the shim's does not.
//   - The worker holds the only write end of a pipe that the shim reads. When the worker is gone, by
//     whatever signal, the kernel closes it, and the shim kills the action at once.
//   - A limit, the end of the run timeout and its grace, holds whatever fence is handed over.
//   - The shim leads a session of its own and outlives SIGTERM, SIGINT and SIGHUP, so what is sent to
//     the worker's group or to everything in its control group ends the worker and not the guard.
//   - If the shim itself is killed, the kernel kills the action (PR_SET_PDEATHSIG), and the worker kills
//     what is left of its group. A shim that does not answer any more is killed the same way. What had
//     left the group becomes a child of the worker, which is a subreaper, too (ProtectWorker): it kills
//     every child that is no shim.
//
// What the shim kills is the whole action. The process group goes first, in one signal that no fork
// can slip away from. The shim is a child subreaper (PR_SET_CHILD_SUBREAPER), so a descendant that has
// left the group by setsid becomes its child when its own parent is gone; it kills and reaps children
// until it has none. Only then does it report the end. An action whose first process has ended is over
// by itself: what it left in the background is killed too. A worker that asks an action to end has
// SIGTERM sent to its group, and the same done after the grace.
//
// Where a control group can be had, each run is born in one of its own, and so are the shims together: what
// is left when worker and shim are both killed or stopped is killed by the next worker that starts there.
//
// Signals go to shims by pidfd, which is how os.Process works on Linux. Process groups have none: their
// numbers stay taken because the leader is reaped last.
//
// What is not covered: without control groups, a descendant that left the group lives on if somebody
// kills both its shim and its worker with SIGKILL, and so it does where the action moves itself out of its
// control group, which needs the worker's user; what the kernel does not kill, because it waits for a
// device, is reported as dead some seconds after it should be; a shim that is stopped together with a
// worker that is stopped or gone enforces nothing until it goes on, or the next worker ends it. Systems other than Linux lack CLOCK_BOOTTIME
// timers, subreapers and parent death signals: there the process group alone is killed, and time
// stands still while the machine sleeps. On systems without process groups nothing but noop runs.
//
// # What an action sees
//
// Parameters are JSON on standard input and, up to 100 KiB, in HANDOFF_PARAMETERS; they are never
// spliced into a command line. HANDOFF_EXECUTION_ID and HANDOFF_EPOCH name the run: the epoch is the
// fencing token to pass on to whatever the action writes to. The environment is otherwise a short list
// of harmless variables, because the worker's own holds passwords.
//
// The same list is the shim's, and both worker and shim are closed to tracing, which also closes their
// entries in /proc: memory, environment, descriptors. Root may trace anybody, so actions lose root's
// capabilities to, and no_new_privs keeps them from regaining those. The shim drops them on the thread
// that starts the action; its other threads keep them. On that thread it also enters a mount namespace in which /tmp,
// /var/tmp and /dev/shm are parts of the run's directory, if its worker may mount; its other threads measure and remove
// the directory as the machine sees it. Isolation has what else there is, Prepare gets it,
// and a rehearsal finds what holds.
//
// Exit code 0 is success. The last line of standard output, if it is a JSON object, is the output;
// else the text is. A failure classifies itself by {"error": {"type": "transient", "message": "…"}} on
// its last line, or by its exit code, as the table ExitCodes says. Everything else is unknown, which is
// never retried. docs/actions.md tells authors of actions how.
//
// # Witness
//
// If HANDOFF_WITNESS names a file, every shim appends a line when its action starts and one when
// nothing of it is alive any more. The two enclose the action's life, so lines of two epochs of one
// execution that overlap prove nothing yet, and lines that don't overlap prove that it never ran twice
// at a time. The end says how: exit code, signal, and the cause if the shim brought it about. A start
// without an end is a shim that was killed.
package subprocess
