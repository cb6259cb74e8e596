package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// While two builds write the same overlay, a third build that reads it only ever reads complete texts.
func TestWriteFileReplacesTextAtomically(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "000_client.go.txt")
	texts := map[string]bool{strings.Repeat("package a\n", 20_000): true, strings.Repeat("package b\n", 20_000): true}
	var writers errgroup.Group
	for text := range texts {
		if err := WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for text := range texts {
		writers.Go(func() error {
			for range 200 {
				if err := WriteFile(path, []byte(text)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- writers.Wait() }()
	for reads := 1; ; reads++ {
		text, err := os.ReadFile(path)
		if err != nil || !texts[string(text)] {
			t.Fatalf("read %d: %d bytes, %v; want one of the two texts of %d bytes", reads, len(text), err, 200_000)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			return
		default:
		}
	}
}

// An unchanged file is not rewritten, so that a build that is reading it is not disturbed.
func TestWriteFileKeepsUnchangedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	if err := WriteFile(path, []byte("a")); err != nil {
		t.Fatal(err)
	}
	before := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(path, before, before); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(before) {
		t.Errorf("the file was written at %v, %v", info.ModTime(), err)
	}
}
