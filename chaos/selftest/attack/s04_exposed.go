//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// refusalWithin is how long an executor may take to notice that it must not start.
const refusalWithin = 3 * time.Second

// exposed starts executors whose API would listen beyond this machine, without a token. Each is
// alone in its own network, in which no other process listens and which none can reach.
func exposed(ctx context.Context, l *lab, r *result) error {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		r.cannot("there is no unshare: an API beyond loopback is tried only in a network of its own")
		return nil
	}
	alone := []string{"--net"}
	if os.Getuid() != 0 {
		alone = []string{"--user", "--map-root-user", "--net"}
	}
	if out, err := exec.CommandContext(ctx, unshare, append(alone, "true")...).CombinedOutput(); err != nil {
		r.cannot("no network of its own can be made here: %s", bytes.TrimSpace(out))
		return nil
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "[::ffff:0.0.0.0]:0", "192.0.2.1:0"} {
		refused, said := start(ctx, unshare, alone, filepath.Join(l.bin, "executor"), address)
		shown := "runs"
		if refused {
			shown = "refused"
		}
		// An executor also fails to listen at an address that this network lacks. Only the reason
		// distinguishes the two.
		names := strings.Contains(said, "token") && strings.Contains(said, "insecure")
		r.expect("executor without token at "+address, shown, "refused, naming token and api.insecure", refused && names)
	}
	refused, said := start(ctx, unshare, alone, filepath.Join(l.bin, "executor"), "127.0.0.1:0")
	r.expect("executor without token at 127.0.0.1:0", fmt.Sprintf("refused: %v", refused), "runs", !refused || !strings.Contains(said, "insecure"))
	return nil
}

// start says whether the executor ended by itself, and what it printed.
func start(ctx context.Context, unshare string, alone []string, executor, address string) (refused bool, said string) {
	within, cancel := context.WithTimeout(ctx, refusalWithin)
	defer cancel()
	cmd := exec.CommandContext(within, unshare, append(alone, executor, "--listen", address)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HANDOFF_DATABASE_URL=postgres://handoff@127.0.0.1:1/none?sslmode=disable", "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL=amqp://127.0.0.1:1/none"}
	// unshare becomes the executor, so the signal at the end of the time reaches the executor.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // within says whether it was killed
	return within.Err() == nil, out.String()
}
