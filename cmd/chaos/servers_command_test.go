//go:build !simulator

package main

import (
	"bytes"
	"strings"
	"testing"

	"handoff/chaos/servers"
)

// Without servers, `chaos servers` still runs the given command, whose tests report what is missing.
func TestServersCommand(t *testing.T) {
	t.Setenv(servers.Without, "postgres,rabbitmq")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"its exit code is the command's", []string{"servers", "--", "sh", "-c", "exit 7"}, 7, ""},
		{"a command that succeeds", []string{"servers", "--", "true"}, 0, ""},
		{"a missing command", []string{"servers", "--", "no-such-command"}, 2, "no-such-command"},
		{"a command without the dashes", []string{"servers", "go"}, 2, "bin/chaos servers -- go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, err bytes.Buffer
			if code := runArgs(t.Context(), c.args, &out, &err); code != c.code || !strings.Contains(err.String(), c.want) {
				t.Errorf("exit %d, want %d\n%s%s", code, c.code, &out, &err)
			}
		})
	}
}
