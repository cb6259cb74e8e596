package subprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/worker"
)

// secret is the text that actions search for. Only isolated workers have it.
const secret = "s3cr3t-of-the-worker"

// nobody is the number of a user without rights.
const nobody = 65534

// isolatedWorker configures a separate worker process, protected like cmd/worker, that runs actions one after
// another.
type isolatedWorker struct {
	Isolation config.Isolation
	// Runs and SecretFile are passed to Options.
	Runs       int
	SecretFile string
	// Dir holds scripts and the files that actions write.
	Dir string
	// Lines lists the actions as shell commands.
	Lines []string
	// Witness is the file that shims write to; empty for none.
	Witness string
}

// findings is the report that an isolated worker prints.
type findings struct {
	State *State
	Error string
	Exits []worker.Exit
	// Children are the worker's children after the last action has ended.
	Children []int
	// Left lists the remaining directories and control groups of ended runs.
	Left []string
}

// isolatedMain runs this process as an isolated worker, or as an attacker, if it was started as one.
func isolatedMain() {
	if os.Getenv("HANDOFF_TEST_ATTACK") != "" {
		attack()
		os.Exit(0)
	}
	text := os.Getenv("HANDOFF_TEST_ISOLATED")
	if text == "" {
		return
	}
	var w isolatedWorker
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		panic(err)
	}
	ProtectWorker()
	_ = json.NewEncoder(os.Stdout).Encode(w.run())
	os.Exit(0)
}

func (iw *isolatedWorker) run() (f findings) {
	h := daemon.New(daemon.Options{})
	r := New(Options{
		Host: h, Actions: iw.Dir, Isolation: iw.Isolation, Runs: iw.Runs, SecretFile: iw.SecretFile, Name: "test",
		Environment: []string{"NOTES=" + iw.Dir, "WORKER=" + strconv.Itoa(os.Getpid())},
	})
	var err error
	if f.State, err = r.Prepare(context.Background()); err != nil {
		f.Error = err.Error()
		return f
	}
	for i, line := range iw.Lines {
		run, err := r.Start(context.Background(), worker.Spec{
			Key: execution.Key{ID: execution.ID(i + 1), Epoch: 1}, Action: execution.Action{Runtime: config.RuntimeShell, Entrypoint: line},
			Fence: h.Monotonic() + time.Hour, Limit: h.Monotonic() + time.Hour,
		})
		if err != nil {
			f.Error = err.Error()
			return f
		}
		exit, _ := run.Wait(context.Background())
		f.Exits = append(f.Exits, exit)
	}
	f.Children, _ = childrenOf(os.Getpid())
	f.Left, _ = filepath.Glob(filepath.Join(iw.Isolation.RunDir, "*", "*"))
	for _, g := range groupsLeft(os.Getpid()) {
		runs, _ := filepath.Glob(filepath.Join(g, "*-*"))
		f.Left = append(f.Left, runs...)
	}
	r.Close()
	return f
}

// yard returns a directory that every user may read and write. The runs' directories are below it.
func yard(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "yard-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// command returns the command that starts an isolated worker as the given user.
func (iw *isolatedWorker) command(t *testing.T, user int) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(iw)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), "HANDOFF_TEST_ISOLATED="+string(text), "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL=amqp://"+secret+"@mq/")
	if iw.Witness != "" {
		cmd.Env = append(cmd.Env, "HANDOFF_WITNESS="+iw.Witness)
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if user != os.Geteuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	}
	return cmd
}

// start runs an isolated worker to its end. The test fails if anything is left of it.
func (iw *isolatedWorker) start(t *testing.T, user int) findings {
	t.Helper()
	iw.Isolation.RunDir = filepath.Join(iw.Dir, "runs-"+strconv.Itoa(user))
	cmd := iw.command(t, user)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var f findings
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if f.Error != "" {
		return f
	}
	if len(f.Children) > 0 || len(f.Left) > 0 {
		t.Errorf("the worker still has the children %v, and %v", f.Children, f.Left)
	}
	if left, err := os.ReadDir(iw.Isolation.RunDir); err != nil || len(left) > 0 {
		t.Errorf("%v is left in the directory for runs, %v", left, err)
	}
	if left := groupsLeft(cmd.Process.Pid); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
	return f
}

// groupsLeft returns the control groups that a worker made and that still exist.
func groupsLeft(pid int) []string {
	var left []string
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.Contains(line, " - cgroup2 ") && len(f) > 4 {
			found, _ := filepath.Glob(f[4] + fmt.Sprintf("/handoff-test-%d.*", pid))
			left = append(left, found...)
		}
	}
	return left
}

// output returns the text that an action printed.
func output(t *testing.T, exit worker.Exit) string {
	t.Helper()
	var text string
	if len(exit.Output) > 0 && json.Unmarshal(exit.Output, &text) != nil {
		return string(exit.Output)
	}
	return text
}

// attackLine runs the attack below as an action.
func attackLine(t *testing.T, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "attacker")
	if os.Link(os.Args[0], binary) != nil {
		text, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(binary, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(binary, 0o755); err != nil {
		t.Fatal(err)
	}
	return "HANDOFF_TEST_ATTACK=$PPID,$WORKER " + binary
}

// attack tries every way to learn the secrets of other processes. It prints what it found: the secret itself,
// or access to one of the given processes.
func attack() {
	if bytes.Contains([]byte(strings.Join(os.Environ(), "\n")), []byte(secret)) {
		fmt.Println("own environment: the secret")
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		for _, name := range []string{"environ", "cmdline"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && bytes.Contains(text, []byte(secret)) && !ours(dir) {
				fmt.Printf("%s/%s: the secret\n", dir, name)
			}
		}
	}
	for i, word := range strings.Split(os.Getenv("HANDOFF_TEST_ATTACK"), ",") {
		who := []string{"shim", "worker"}[i]
		pid, err := strconv.Atoi(word)
		if err != nil {
			continue
		}
		for _, name := range []string{"environ", "mem", "maps", "auxv", "fd/1", "fd/3", "exe", "cwd", "root", "task/" + word + "/environ"} {
			if f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name)); err == nil {
				_ = f.Close()
				fmt.Printf("%s: opened %s\n", who, name)
			}
		}
		attackBySyscalls(who, pid)
	}
}

// ours reports whether a directory of /proc belongs to the attacker.
func ours(dir string) bool { return filepath.Base(dir) == strconv.Itoa(os.Getpid()) }

func attackBySyscalls(who string, pid int) {
	if pidfd, err := unix.PidfdOpen(pid, 0); err == nil {
		if _, err := unix.PidfdGetfd(pidfd, 1, 0); err == nil {
			fmt.Printf("%s: took a descriptor\n", who)
		}
	}
	local := make([]byte, 16)
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &local[0], Len: 16}}, []unix.RemoteIovec{{Base: 0x1000, Len: 16}}, 0)
	if err != unix.EPERM {
		fmt.Printf("%s: could read memory (%v)\n", who, err)
	}
	if unix.PtraceSeize(pid) == nil {
		fmt.Printf("%s: traced\n", who)
		_ = unix.PtraceDetach(pid)
	}
}
