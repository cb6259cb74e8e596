package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
)

// FileName is the name of a share's file in the folder of its report.
const FileName = "shard.jsonl"

// Header is the first line of a file; it identifies the share and the job. Only files of the same commit are
// merged, so the format has no version.
type Header struct {
	// Kind is the kind of the file's items.
	Kind  string `json:"kind"`
	Share Share  `json:"share"`
	// Commit and Go are the versions of the program that ran the share. An unknown commit is empty.
	Commit string `json:"commit"`
	Go     string `json:"go"`
	// Digest covers all inputs, such as scenarios.
	Digest string `json:"digest"`
	// Seeds is the number of runs of each target over all shares; 0 without seeds.
	Seeds int `json:"seeds"`
	// Asked maps flags to their values, for all other settings that determine the result.
	Asked map[string]string `json:"asked"`
}

// trailer is the last line of a file. A file without it is truncated.
type trailer struct {
	// SHA256 covers the lines before this one.
	SHA256 string `json:"sha256"`
	// Aside is data that may differ between two files of the same share, such as durations.
	Aside json.RawMessage `json:"aside"`
}

// Write writes a file: the header, each item as a line of JSON, and a last line that confirms completeness.
// Equal headers and items give equal bytes up to the last line, which contains aside.
func Write(w io.Writer, h Header, items []any, aside any) error {
	sum := sha256.New()
	lines := json.NewEncoder(io.MultiWriter(w, sum))
	for i, item := range slices.Concat([]any{h}, items) {
		if err := lines.Encode(item); err != nil {
			return fmt.Errorf("writing line %d of a share: %w", i+1, err)
		}
	}
	beside, err := json.Marshal(aside)
	if err == nil {
		err = json.NewEncoder(w).Encode(trailer{hex.EncodeToString(sum.Sum(nil)), beside})
	}
	if err != nil {
		return fmt.Errorf("writing the end of a share: %w", err)
	}
	return nil
}

// File is a verified share.
type File struct {
	Path   string
	Header Header
	// Sum identifies the content except the aside data.
	Sum string
}

// Verify reads a file, and refuses a truncated or changed one.
func Verify(path string) (File, error) {
	f, _, _, err := readFile(path)
	return f, err
}

// Each calls use with each item of a file, and decodes the aside data.
func Each[T any](f File, aside any, use func(T) error) error {
	again, items, beside, err := readFile(f.Path)
	if err != nil {
		return err
	}
	if again.Sum != f.Sum {
		return fmt.Errorf("%s: it was written again while it was read", f.Path)
	}
	for i, text := range items {
		var item T
		err := decodeStrictly(text, &item)
		if err == nil {
			err = use(item)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", f.Path, i+2, err)
		}
	}
	if err := json.Unmarshal(beside, aside); err != nil {
		return fmt.Errorf("%s: aside: %w", f.Path, err)
	}
	return nil
}

// readFile reads the header, the items and the aside data.
func readFile(path string) (f File, items [][]byte, aside json.RawMessage, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return f, nil, nil, err
	}
	body := text[:bytes.LastIndexByte(bytes.TrimSuffix(text, []byte{'\n'}), '\n')+1]
	var last trailer
	if err := decodeStrictly(text[len(body):], &last); err != nil || len(body) == 0 {
		return f, nil, nil, fmt.Errorf("%s: it has no last line, so it was cut off; copy it again, or run the share again", path)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != last.SHA256 {
		return f, nil, nil, fmt.Errorf("%s: its lines are not those that were written; copy it again, or run the share again", path)
	}
	lines := bytes.Split(bytes.TrimSuffix(body, []byte{'\n'}), []byte{'\n'})
	f = File{Path: path, Sum: last.SHA256}
	if err := decodeStrictly(lines[0], &f.Header); err != nil {
		return f, nil, nil, fmt.Errorf("%s:1: %w", path, err)
	}
	if f.Header.Share.Whole() {
		return f, nil, nil, fmt.Errorf("%s:1: it does not say which share of how many it is, as in \"2/4\"", path)
	}
	return f, lines[1:], last.Aside, nil
}

// decodeStrictly refuses unknown fields, because they show that another version of the program wrote the
// file.
func decodeStrictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
