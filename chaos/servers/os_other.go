//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package servers

import (
	"os"
	"os/exec"
)

// Without process control servers could be left behind, so this system starts none: makePlan refuses before
// any of these functions is called.

const privateSupported = false

type signal int

const (
	sigInt signal = iota
	sigTerm
	sigKill
	sigStop
	sigCont
)

func signalProcess(int, signal) {}

func ownGroup(*exec.Cmd) {}

func lockFile(string, bool) (*os.File, error) { return nil, errNoPrivate }

func ownDir(string) bool { return false }

type account struct{ name string }

func (a *account) takeOwnership(string) error { return errNoPrivate }

func serverAccount(...string) (*account, error) { return nil, errNoPrivate }

func setProcess(*exec.Cmd, *account) {}

func descendantPIDs(int) []int { return nil }

func anyAlive([]int) bool { return false }

func isHalted(int) bool { return true }

func processesUnder(string) []int { return nil }

func claimPort(int) bool { return true }

func releasePort(int) {}
