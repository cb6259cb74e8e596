// Package subprocess runs actions on a real machine. Each action has its own process group, under a
// small shim that ends it when its worker's right to run it is over.
//
// # Why no action outlives its worker's right to run it
//
// A worker that can't renew its lease must be gone before the lease is over, together with everything it
// started. The worker itself can't guarantee that: it may have been killed, stopped (SIGSTOP, a debugger,
// memory pressure) or starved. So each action runs under a shim, another process of the worker's binary. The
// worker lends the shim the right to run for a time:
//
//   - The worker gives the shim a fence, the time at which the shim kills the action, and a later fence after
//     each renewal. A stalled worker sends nothing, so the shim acts at the last fence. A fence is sent as
//     remaining time, together with the machine's clock when that was measured, so that a delayed message
//     lends no extra time.
//   - The shim uses CLOCK_BOOTTIME, which continues while the machine is suspended, and a timer on that clock
//     wakes it. The worker's own clock may stop during a suspension.
//   - The worker holds the only write end of a pipe that the shim reads. When the worker is gone, for
//     whatever reason, the kernel closes the pipe, and the shim kills the action at once.
//   - A limit, the end of the run timeout and the kill grace, applies whatever fence the worker sends.
//   - The shim leads its own session and survives SIGTERM, SIGINT and SIGHUP. So a signal to the worker's
//     group, or to everything in its control group, ends the worker but not the shim. If such a signal ends
//     the action, too, the shim reports that the action ended with its worker. A shim that can't catch the
//     signal yet has started nothing, and the worker knows that.
//   - If the shim itself is killed, the kernel kills the action (PR_SET_PDEATHSIG), and the worker kills the
//     rest of its group. A shim that no longer answers is killed the same way. A process that had left the
//     group becomes a child of the worker, which is a subreaper too (ProtectWorker). The worker kills every
//     child that is not a shim.
//
// The shim kills the whole action. It first kills the process group, with one signal that no fork can escape.
// The shim is a child subreaper (PR_SET_CHILD_SUBREAPER), so a descendant that has left the group by setsid
// becomes its child when its own parent is gone. The shim kills and reaps children until it has none, and
// only then reports the end. An action is over when its first process has ended: its background processes are
// killed too. When a worker ends an action, the group gets SIGTERM, and after the grace everything is killed
// in this way.
//
// If control groups are available, each run is born in its own, and the shims share one. If worker
// and shim are both killed or stopped, the next worker that starts there kills what they left.
//
// Signals go to shims by pidfd, as os.Process does on Linux. Process groups have no pidfd, but their ids are
// not reused because the leader is reaped last.
//
// Some cases are not covered. Without control groups, a descendant that left the group survives if both its
// shim and its worker are killed with SIGKILL. The same happens if the action leaves its control group, which
// only the worker's user can do. If the kernel does not kill a process, because it waits for a device, the
// process is reported dead some seconds after it should have died. A stopped shim whose worker is stopped or
// gone enforces nothing until it continues or the next worker ends it. Systems other than Linux lack
// CLOCK_BOOTTIME timers, subreapers and parent death signals. On these, only the process group is killed, and
// time stops while the machine sleeps. On systems without process groups, only noop runs.
//
// # What an action sees
//
// Parameters are JSON on standard input and, up to 100 KiB, in HANDOFF_PARAMETERS; they are never spliced
// into a command line. HANDOFF_EXECUTION_ID and HANDOFF_EPOCH identify the run. The epoch is the fencing
// token, which the action should pass to every system that it writes to. The rest of the environment is a
// short list of harmless variables, because the worker's own environment holds passwords.
//
// The shim has the same short list. Neither worker nor shim can be traced, which also protects their entries
// in /proc: memory, environment, descriptors. Root may trace any process, so actions lose root's capabilities
// to do so, and no_new_privs prevents them from regaining these. The shim drops the capabilities on the
// thread that starts the action; its other threads keep them. If its worker may mount, that thread also
// enters a mount namespace in which /tmp, /var/tmp and /dev/shm are parts of the run's directory. The other
// threads, which measure and remove the directory, keep the machine's view. Isolation lists the further
// protections, Prepare sets them up, and a rehearsal tests which of them work.
//
// Exit code 0 is success. The output is the last line of standard output if that line is a JSON object, else
// the whole text. An action states the reason of a failure by {"error": {"type": "transient", "message":
// "…"}} on its last line, or by its exit code, as in the table worker.ExitCodes. Every other failure has the
// reason unknown, which is never retried. docs/actions.md explains this to authors of actions.
//
// # Witness
//
// If HANDOFF_WITNESS names a file, every shim appends a line when its action starts and one when none of its
// processes is alive any more. The action's life lies between the two lines. So if the lines of two epochs of
// an execution overlap, that proves nothing. If not, the execution never ran twice at a time. The end line
// has the exit code, the signal, and the cause if the shim ended the action. A start without an end means
// that the shim was killed.
package subprocess
