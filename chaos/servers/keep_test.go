package servers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The next Up with the same directory has the same data, addresses and logs.
func TestKeptDirectoryRestoresDataAndAddresses(t *testing.T) {
	Require(t, Available(t.Context(), Options{Postgres: true, RabbitMQ: true, PrivateOnly: true}))
	ownTemp(t)
	keep := filepath.Join(os.Getenv("TMPDIR"), "kept")
	up := func() *Set {
		t.Helper()
		s, err := Up(within(t), Options{Postgres: true, RabbitMQ: true, PrivateOnly: true, Keep: keep})
		var container *KeepError
		if errors.As(err, &container) && strings.Contains(err.Error(), "container") {
			t.Skip("servers run in containers here: " + err.Error())
		}
		Require(t, err)
		t.Cleanup(func() { _ = s.Down() })
		return s
	}
	first := up()
	execute(t, first.Postgres.URL, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
	publish(t, first.RabbitMQ.URL, "kept", "hello")
	var busy *KeepError
	if _, err := Up(t.Context(), Options{Postgres: true, PrivateOnly: true, Keep: keep}); !errors.As(err, &busy) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second Up of the same directory: %v", err)
	}
	check(t, first.Down())

	second := up()
	if second.Postgres.URL != first.Postgres.URL || second.RabbitMQ.URL != first.RabbitMQ.URL {
		t.Errorf("other addresses: %s, %s instead of %s, %s", second.Postgres.URL, second.RabbitMQ.URL, first.Postgres.URL, first.RabbitMQ.URL)
	}
	if n := query[int](t, second.Postgres.URL, "SELECT n FROM kept"); n != 7 {
		t.Errorf("the table has %d", n)
	}
	if text, err := take(second.RabbitMQ.URL, "kept"); err != nil || text != "hello" {
		t.Errorf("the queue has %q, %v", text, err)
	}
	check(t, second.Down())
	log, err := os.ReadFile(filepath.Join(keep, "postgres.log"))
	if starts := strings.Count(string(log), "ready to accept connections"); err != nil || starts != 2 {
		t.Errorf("the log has %d starts (%v), want 2", starts, err)
	}
}

// Only an empty directory, or a directory that an earlier Up has created, is accepted. Other directories are
// not changed.
func TestKeepAcceptsOnlyEmptyOrKeptDirectory(t *testing.T) {
	Require(t, Available(t.Context(), Options{Postgres: true, PrivateOnly: true}))
	ownTemp(t)
	base := os.Getenv("TMPDIR")
	full := filepath.Join(base, "full")
	check(t, os.Mkdir(full, 0o755))
	check(t, os.WriteFile(filepath.Join(full, "thesis.tex"), []byte("x"), 0o600))
	closed := filepath.Join(base, "closed", "kept")
	check(t, os.Mkdir(filepath.Join(base, "closed"), 0o700))
	for dir, want := range map[string]string{
		full:                              "is not empty, and was not made by an earlier run",
		filepath.Join(full, "thesis.tex"): "not a directory",
		closed:                            "can't reach",
	} {
		if dir == closed && os.Geteuid() != 0 {
			continue // servers run as this user, who can access it
		}
		s, err := Up(t.Context(), Options{Postgres: true, PrivateOnly: true, Keep: dir})
		if err == nil {
			check(t, s.Down())
		}
		var refused *KeepError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
	if found, err := os.ReadDir(full); err != nil || len(found) != 1 {
		t.Errorf("the directory of others has %v now, %v", found, err)
	}
}
