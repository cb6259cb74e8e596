package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/testenv"
)

const childMode = "PROVISION_TEST_CHILD"

func init() {
	instead = func() {
		if mode := os.Getenv(childMode); mode != "" {
			victim(mode)
		}
	}
}

// victim is the main function of a child process, run from this test binary, that a test starts and kills.
func victim(mode string) {
	die := func(err error) {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	if mode == "interrupt" {
		Main(waitingTests{})
	}
	set, err := Up(context.Background(), Options{Postgres: true, RabbitMQ: mode == "killed", PrivateOnly: true})
	if err != nil {
		die(err)
	}
	if mode == "paused" {
		conn, err := pgx.Connect(context.Background(), set.Postgres.URL)
		if err == nil {
			err = errors.Join(conn.Ping(context.Background()), set.Postgres.Pause())
		}
		if err != nil {
			die(err)
		}
	}
	report(set.dir.path)
	if mode == "panic" {
		bufio.NewReader(os.Stdin).ReadString('\n') //nolint:errcheck // any input, or its end
		panic("as asked for")
	}
	select {}
}

func report(dirs ...string) { fmt.Println("up", strings.Join(dirs, " ")) }

// waitingTests simulates a package's tests that use both components and then hang.
type waitingTests struct{}

func (waitingTests) Run() int {
	pg, err1 := shared.postgres.startOnce(Options{Postgres: true, PrivateOnly: true})
	mq, err2 := shared.rabbitmq.startOnce(Options{RabbitMQ: true, PrivateOnly: true})
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	report(pg.dir.path, mq.dir.path)
	select {}
}

// startedVictim is a running victim, with the directories of its servers.
type startedVictim struct {
	cmd        *exec.Cmd
	dirs       []string
	closeInput func()
	temp       string
	err        error
}

// startVictim starts a victim and returns it once its servers are up.
func startVictim(t *testing.T, mode string) (*exec.Cmd, []string, func()) {
	t.Helper()
	v := beginVictim(t, mode)()
	check(t, v.err)
	return v.cmd, v.dirs, v.closeInput
}

// beginVictim starts a victim and returns a function that waits until the victim's servers are up.
func beginVictim(t *testing.T, mode string) func() startedVictim {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	check(t, err)
	in, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func() startedVictim {
		line, err := bufio.NewReader(out).ReadString('\n')
		words := strings.Fields(line)
		if err != nil || len(words) < 2 || words[0] != "up" {
			return startedVictim{err: fmt.Errorf("%s: %q, %w", mode, line, errors.Join(err, errors.New("its servers are not up")))}
		}
		return startedVictim{cmd: cmd, dirs: words[1:], closeInput: func() { _ = in.Close() }}
	}
}

// alive lists the names of processes that run in the directories, without zombies.
func alive(dirs []string) []string {
	var out []string
	for _, dir := range dirs {
		for _, pid := range processesUnder(dir) {
			if anyAlive([]int{pid}) {
				name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
				out = append(out, strings.TrimSpace(string(name))+" "+strconv.Itoa(pid))
			}
		}
	}
	return out
}

func TestServersEndWithTheirProcess(t *testing.T) {
	noImages(t)
	Require(t, Available(t.Context(), Options{Postgres: true, RabbitMQ: true, PrivateOnly: true}))
	cases := []struct {
		mode  string
		names []string // must run before
		end   func(cmd *exec.Cmd, closeInput func())
		swept bool // the directory remains until the next start
	}{
		{"killed", []string{"beam", "epmd", "postgres"}, func(cmd *exec.Cmd, _ func()) { _ = cmd.Process.Kill() }, true},
		{"paused", []string{"postgres"}, func(cmd *exec.Cmd, _ func()) { _ = cmd.Process.Kill() }, true},
		{"panic", []string{"postgres"}, func(_ *exec.Cmd, closeInput func()) { closeInput() }, true},
		{"interrupt", []string{"beam", "epmd", "postgres"}, func(cmd *exec.Cmd, _ func()) { _ = cmd.Process.Signal(os.Interrupt) }, false},
	}
	// They start in parallel, each in its own temporary directory, and end one after the other.
	started := make([]startedVictim, len(cases))
	var all sync.WaitGroup
	for i, c := range cases {
		ownTemp(t)
		temp, start := os.Getenv("TMPDIR"), beginVictim(t, c.mode)
		all.Go(func() {
			started[i] = start()
			started[i].temp = temp
		})
	}
	all.Wait()
	for i, c := range cases {
		t.Run(c.mode, func(t *testing.T) {
			v := started[i]
			check(t, v.err)
			t.Setenv("TMPDIR", v.temp)
			cmd, dirs, closeInput := v.cmd, v.dirs, v.closeInput
			before := strings.Join(alive(dirs), ", ")
			for _, name := range c.names {
				if !strings.Contains(before, name) {
					t.Fatalf("no %s among %s", name, before)
				}
			}
			c.end(cmd, closeInput)
			_ = cmd.Wait() // the test has made it fail
			began := time.Now()
			for len(alive(dirs)) > 0 && time.Since(began) < testenv.Patience() {
				time.Sleep(5 * time.Millisecond)
			}
			if left := alive(dirs); len(left) > 0 {
				t.Fatalf("%v later: %q", time.Since(began), left)
			}
			t.Logf("all gone %v after the process", time.Since(began).Round(time.Millisecond))
			if c.swept {
				check(t, sweepAndSee(t, dirs))
			}
			if left := workDirs(t); len(left) > 0 {
				t.Fatalf("left behind: %q", left)
			}
			if code := cmd.ProcessState.ExitCode(); c.mode == "interrupt" && code != 130 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// sweepAndSee starts a PostgreSQL. Its start must remove the directories of dead processes, but not its own.
func sweepAndSee(t *testing.T, dirs []string) error {
	t.Helper()
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			return err
		}
	}
	var log strings.Builder
	set, err := Up(t.Context(), Options{Postgres: true, PrivateOnly: true, Log: &log})
	if err != nil {
		return err
	}
	if left := workDirs(t); len(left) != 1 || left[0] != set.dir.path {
		t.Errorf("directories after the next start: %q\n%s", left, log.String())
	}
	if !strings.Contains(log.String(), dirs[0]) {
		t.Errorf("the log does not name %s:\n%s", dirs[0], log.String())
	}
	return set.Down()
}

func TestSweepKillsLeftoverProcesses(t *testing.T) {
	noImages(t)
	base := t.TempDir()
	dead := filepath.Join(base, dirPrefix+"dead")
	check(t, os.Mkdir(dead, 0o755))
	check(t, os.WriteFile(filepath.Join(dead, lockName), nil, 0o600))
	cmd := exec.Command("sleep", "3600")
	cmd.Dir = dead
	check(t, cmd.Start())
	living, err := makeWorkDir(base)
	check(t, err)
	// Without a lock file, a directory is not ours despite its prefix.
	foreign := filepath.Join(base, dirPrefix+"foreign")
	check(t, os.Mkdir(foreign, 0o755))

	check(t, sweepWorkDirs(base, nil))
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process in the dead directory: %v", err)
	}
	for dir, want := range map[string]bool{dead: false, living.path: true, foreign: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
	check(t, living.removeDir())
}
