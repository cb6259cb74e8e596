//go:build !(js && wasm)

// Command playground builds the simulator as a web page: a folder for any static host. Built for WebAssembly
// it is that simulator. It links no client of a database or a broker.
package main

import (
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed page
var page embed.FS

// Files of the folder, in addition to the files embedded from page.
const (
	wasmFile = "playground.wasm.gz"
	execFile = "wasm_exec.js"
)

// mostBytes is the maximum size of the compressed simulator, in bytes.
const mostBytes = 8 << 20

func main() {
	if len(os.Args) != 2 || strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "usage: playground FOLDER\nwrites the simulator as a page for browsers into FOLDER")
		os.Exit(2)
	}
	if err := writeFolder(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

// writeFolder writes the folder and prints its size.
func writeFolder(dir string, out io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(dir+"/.new", page); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir + "/.new") }()
	files, err := filepath.Glob(filepath.Join(dir, ".new", "page", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.Rename(file, filepath.Join(dir, filepath.Base(file))); err != nil {
			return err
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	runtime, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", execFile))
	if err != nil {
		return fmt.Errorf("reading Go's own script: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, execFile), runtime, 0o644); err != nil {
		return err
	}
	raw := filepath.Join(dir, ".new", "playground.wasm")
	if err := buildWASM(raw); err != nil {
		return err
	}
	before, after, err := compressFile(raw, filepath.Join(dir, wasmFile))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %.1f MB, %.1f MB without compression\n", filepath.Join(dir, wasmFile), megabytes(after), megabytes(before))
	if after > mostBytes {
		return fmt.Errorf("%s has %.1f MB, at most %.1f are allowed", wasmFile, megabytes(after), megabytes(mostBytes))
	}
	fmt.Fprintf(out, "%s: any static host serves this folder; to look at it here: python3 -m http.server -d %s\n", dir, dir)
	return nil
}

// buildWASM compiles this package for the browser.
func buildWASM(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "handoff/cmd/playground")
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the simulator for browsers: %w\n%s", err, said)
	}
	return nil
}

// compressFile writes a gzip copy of a file. The page unpacks it itself, so the host needs no configuration.
func compressFile(from, to string) (before, after int64, err error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return 0, 0, err
	}
	file, err := os.Create(to)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return 0, 0, err
	}
	if _, err := z.Write(data); err != nil {
		return 0, 0, err
	}
	if err := z.Close(); err != nil {
		return 0, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	return int64(len(data)), info.Size(), file.Close()
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
