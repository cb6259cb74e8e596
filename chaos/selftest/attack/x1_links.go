//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// links puts links into an actions directory that lead out of it, and names them as scripts.
func links(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	dir, outside := filepath.Join(l.dir, "linked"), filepath.Join(l.dir, "outside")
	for _, d := range []string{dir, outside} {
		if err := os.MkdirAll(d, 0o755); err != nil { //nolint:gosec // actions read there
			return err
		}
	}
	for _, f := range []string{filepath.Join(outside, "out.sh"), filepath.Join(dir, "in.sh")} {
		if err := os.WriteFile(f, []byte("echo ran\n"), 0o755); err != nil { //nolint:gosec // a script
			return err
		}
	}
	for link, to := range map[string]string{"link.sh": filepath.Join(outside, "out.sh"), "folder": outside, "relative.sh": "../outside/out.sh", "inner.sh": "in.sh"} {
		_ = os.Remove(filepath.Join(dir, link)) // of an earlier run
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	name := "linked-" + word()
	d, err := s.worker(ctx, workerOptions{name: name, actions: dir})
	if err != nil {
		return err
	}
	defer s.stopWorker(ctx, d)
	id, err := s.workerID(ctx, name)
	if err != nil {
		return err
	}
	for i, c := range []struct {
		script string
		runs   bool
	}{{"in.sh", true}, {"inner.sh", true}, {"link.sh", false}, {"folder/out.sh", false}, {"relative.sh", false}, {"../outside/out.sh", false}, {filepath.Join(outside, "out.sh"), false}} {
		e, err := s.run(ctx, fmt.Sprintf("attack.link%d", i), c.script, 10, id, 20*time.Second)
		if err != nil {
			return err
		}
		shown := filepath.Base(c.script)
		if !filepath.IsAbs(c.script) {
			shown = c.script
		}
		allowed := "not completed"
		if c.runs {
			allowed = "completed"
		}
		r.expect("script "+shown, e.Status, allowed, (e.Status == "completed") == c.runs)
	}
	return nil
}
