package shard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// FileName is the name of a share's file in the folder of its report.
const FileName = "shard.jsonl"

// Find returns the files that arguments name: a file, a folder with a share in it, or a folder of
// such folders.
func Find(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("no such share: %w; chaos run --shard writes one into its --out", err)
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		if in := filepath.Join(arg, FileName); exists(in) {
			files = append(files, in)
			continue
		}
		entries, err := os.ReadDir(arg)
		if err != nil {
			return nil, fmt.Errorf("reading a folder of shares: %w", err)
		}
		before := len(files)
		for _, entry := range entries {
			if in := filepath.Join(arg, entry.Name(), FileName); exists(in) {
				files = append(files, in)
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("no share in %s: neither %s nor FOLDER/%s is there; chaos run --shard writes it into --out", arg, FileName, FileName)
		}
	}
	// The same file may be named by itself and by its folder.
	for i := range files {
		files[i] = filepath.Clean(files[i])
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// Verify reads a whole file, and keeps the data that Gather needs.
func Verify(path string) (File, error) {
	f, err := Each(path, func(_ *Reader, _ json.RawMessage) error { return nil })
	if err != nil {
		return File{}, err
	}
	return File{path, f.Header(), f.Sum()}, nil
}

// Each reads a file and calls use with each item. use gets the Reader to refuse an item. The Reader
// that Each returns has been read to its end.
func Each[T any](path string, use func(*Reader, T) error) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	r, err := NewReader(path, file)
	if err != nil {
		return nil, err
	}
	for {
		var item T
		switch err := r.Next(&item); {
		case errors.Is(err, io.EOF):
			return r, nil
		case err != nil:
			return nil, err
		}
		if err := use(r, item); err != nil {
			return nil, err
		}
	}
}
