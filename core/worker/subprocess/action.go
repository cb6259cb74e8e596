package subprocess

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"handoff/core/config"
	"handoff/core/execution"
)

// scriptInterpreters maps runtimes to the programs that run their scripts.
func scriptInterpreters() map[string]string {
	return map[string]string{config.RuntimeShell: "/bin/sh", config.RuntimePython: "python3", config.RuntimeNode: "node"}
}

// Runtimes lists the runtimes that this machine can run, in the order of the contract.
func Runtimes() []string {
	var found []string
	for _, r := range []string{config.RuntimeShell, config.RuntimePython, config.RuntimeNode} {
		if _, err := exec.LookPath(scriptInterpreters()[r]); err == nil && unsupportedError() == nil {
			found = append(found, r)
		}
	}
	return append(found, config.RuntimeNoop)
}

// actionCommand returns the command line of an action. Apart from paths on this machine, it contains only
// text from the action's author.
func actionCommand(dir string, a execution.Action) ([]string, error) {
	program, ok := scriptInterpreters()[a.Runtime]
	if !ok {
		return nil, newRefusal(execution.Validation, "runtime %q is not known here", a.Runtime)
	}
	if a.Entrypoint == "" {
		return nil, newRefusal(execution.Validation, "action %q has no entry point", a.Ref)
	}
	if strings.ContainsRune(a.Entrypoint, 0) {
		return nil, newRefusal(execution.Validation, "the entry point of action %q holds a NUL character", a.Ref)
	}
	program, err := exec.LookPath(program)
	if err != nil {
		return nil, err // retriable: another worker may have the interpreter
	}
	if a.Runtime == config.RuntimeShell && !isScript(a.Entrypoint) {
		return []string{program, "-c", a.Entrypoint}, nil
	}
	script, err := scriptPath(dir, a.Entrypoint)
	if err != nil {
		return nil, err
	}
	return []string{program, script}, nil
}

// isScript reports whether a shell entry point is a script and not a command line: one word that ends in .sh.
// Files on the disk don't matter, so that a missing script never runs as a command.
func isScript(entrypoint string) bool {
	return strings.HasSuffix(entrypoint, ".sh") && !strings.ContainsAny(entrypoint, " \t\r\n;&|<>()$`\\\"'*?[]#~=%!{}")
}

// scriptPath returns the path of a script, which must be inside the actions directory.
func scriptPath(dir, entrypoint string) (string, error) {
	if dir == "" {
		return "", newRefusal(execution.ActionNotFound, "script %q: this worker has no actions directory", entrypoint)
	}
	if !filepath.IsLocal(entrypoint) {
		return "", newRefusal(execution.Validation, "script %q is not a path within the actions directory", entrypoint)
	}
	path, err := filepath.Abs(filepath.Join(dir, entrypoint))
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", newRefusal(execution.ActionNotFound, "script %q does not exist in the actions directory", entrypoint)
	case errors.Is(err, fs.ErrPermission):
		return "", newRefusal(execution.Permission, "script %q can't be read", entrypoint)
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", newRefusal(execution.Validation, "script %q is not a file", entrypoint)
	}
	return path, checkContained(dir, path, entrypoint)
}

// checkContained refuses a script that is a link out of the actions directory. Links within it are allowed,
// because operators use them to switch releases.
func checkContained(dir, path, entrypoint string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if inside, err := filepath.Rel(dir, target); err != nil || !filepath.IsLocal(inside) {
		return newRefusal(execution.Validation, "script %q is a link that leads out of the actions directory", entrypoint)
	}
	return nil
}

// maxVariable bounds the length of the parameters in the environment, because Linux does not start a program
// with a variable of 128 KiB.
const maxVariable = 100 << 10

// shimKeeps lists the variables that a shim needs in addition to the harmless ones. Tests add their own.
var shimKeeps = []string{"HANDOFF_WITNESS"}

// shimEnvironment returns the environment of the shim. The worker's own environment holds passwords, and an
// action of the same user may find a way to read its shim's environment. The shim does little, so one
// processor is enough and limits its threads and memory.
func shimEnvironment(all []string) []string {
	kept := append(baseEnvironment(all), "GOMAXPROCS=1")
	for _, v := range all {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(shimKeeps, name) {
			kept = append(kept, v)
		}
	}
	return kept
}

// baseEnvironment keeps the variables from which programs find other programs and their language.
func baseEnvironment(all []string) []string {
	var kept []string
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR":
			kept = append(kept, v)
		default:
			if strings.HasPrefix(name, "LC_") {
				kept = append(kept, v)
			}
		}
	}
	return kept
}
