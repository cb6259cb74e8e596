// Package subprocess runs actions on a real machine. Each action has its own process group, under a
// small shim that ends it when its worker's right to run it is over.
//
// # Why no action outlives its worker's right to run it
//
// A worker that can't renew its lease must be gone, with everything it started, before the lease is
// over. The worker itself can't guarantee that: it may have been killed, stopped (SIGSTOP, a
// debugger, memory pressure) or starved. So a shim stands between the worker and each action. The
// shim is another process of the worker's own binary, and the worker lends it the right to run for
// a time:
//
//   - The worker gives the shim a fence, a moment at which the shim kills the action, and a later
//     one after each renewal. A worker that stands still sends nothing, so the fence comes. The
//     fence is sent as remaining time together with the reading of the machine's clock at which it
//     was measured, so a message that is delayed while the worker stands still lends no extra time.
//   - The shim measures on CLOCK_BOOTTIME, which goes on while the machine is suspended, and a
//     timer on that clock wakes it. The worker's own clock may stand still then; the shim's does
//     not.
//   - The worker holds the only write end of a pipe that the shim reads. When the worker is gone,
//     by whatever signal, the kernel closes the pipe, and the shim kills the action at once.
//   - A limit, the end of the run timeout and its grace, applies whatever fence the worker sends.
//   - The shim leads its own session and survives SIGTERM, SIGINT and SIGHUP. So a signal to the
//     worker's group, or to everything in its control group, ends the worker but not the shim. An
//     action that such a signal ends together with it has ended with its worker: the shim says so.
//     A shim that can't catch the signal yet has started nothing, and the worker knows that.
//   - If the shim itself is killed, the kernel kills the action (PR_SET_PDEATHSIG), and the worker
//     kills the rest of its group. A shim that no longer answers is killed the same way.
//     A process that had left the group becomes a child of the worker, which is a subreaper too
//     (ProtectWorker) and kills every child that is not a shim.
//
// The shim kills the whole action. It first kills the process group, with one signal that no fork
// can escape. The shim is a child subreaper (PR_SET_CHILD_SUBREAPER), so a descendant that has left
// the group by setsid becomes its child when its own parent is gone. The shim kills and reaps
// children until it has none, and only then reports the end. An action is over when its first
// process has ended: processes that it left in the background are killed too. When a worker asks an
// action to end, its group gets SIGTERM, and after the grace everything is killed in this way.
//
// If control groups are available, each run is born in its own, and the shims share one. If worker
// and shim are both killed or stopped, the next worker that starts there kills what they left.
//
// Signals go to shims by pidfd, as os.Process does on Linux. Process groups have no pidfd, but
// their numbers stay taken because the leader is reaped last.
//
// Some cases are not covered. Without control groups, a descendant that left the group survives if
// somebody kills both its shim and its worker with SIGKILL. The same happens if the action moves
// itself out of its control group, for which it needs the worker's user. A process that the kernel
// does not kill, because it waits for a device, is reported dead some seconds after it should be
// dead. A stopped shim whose worker is stopped or gone enforces nothing until it continues or the
// next worker ends it. Systems other than Linux lack CLOCK_BOOTTIME timers, subreapers and parent
// death signals: there only the process group is killed, and time stands still while the machine
// sleeps. On systems without process groups only noop runs.
//
// # What an action sees
//
// Parameters are JSON on standard input and, up to 100 KiB, in HANDOFF_PARAMETERS; they are never
// spliced into a command line. HANDOFF_EXECUTION_ID and HANDOFF_EPOCH name the run. The epoch is
// the fencing token, which the action should pass on to every system that it writes to. The rest of
// the environment is a short list of harmless variables, because the worker's own environment holds
// passwords.
//
// The shim has the same short list. Worker and shim are both closed to tracing, which also closes
// their entries in /proc: memory, environment, descriptors. Root may trace any process, so actions
// lose root's capabilities to do so, and no_new_privs keeps them from regaining those. The shim
// drops them on the thread that starts the action; its other threads keep them. If its worker may
// mount, that thread also enters a mount namespace in which /tmp, /var/tmp and /dev/shm are parts
// of the run's directory; the other threads measure and remove the directory as the machine sees
// it. Isolation lists the further means, Prepare sets them up, and a rehearsal finds out which
// hold.
//
// Exit code 0 is success. The last line of standard output is the output if it is a JSON object;
// otherwise the whole text is. An action states the reason of a failure by {"error": {"type":
// "transient", "message": "…"}} on its last line, or by its exit code, as in the table worker.ExitCodes.
// Every other failure is unknown, which is never retried. docs/actions.md explains this to authors
// of actions.
//
// # Witness
//
// If HANDOFF_WITNESS names a file, every shim appends a line when its action starts and one when
// nothing of it is alive any more. The two lines enclose the action's life. So overlapping lines of
// two epochs of one execution prove nothing yet, but lines that don't overlap prove that it never
// ran twice at a time. The end line says how the action ended: exit code, signal, and the cause if
// the shim ended it. A start without an end means that the shim was killed.
package subprocess
