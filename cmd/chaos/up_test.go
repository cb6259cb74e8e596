package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Invalid requests are refused before any server starts.
func TestUpRefusesInvalidFlags(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	actions := t.TempDir()
	broken := filepath.Join(actions, "broken.yaml")
	if err := os.WriteFile(broken, []byte("name: team.job\nruntime: cobol\nentrypoint: job.sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := writeFile(t, "handoff.yaml", "worker:\n  concurency: 4\n")
	for flag, want := range map[string]string{
		"--workers=17":                     "--workers 17: must be from 1 to 16",
		"--executors=0":                    "--executors 0: must be from 1 to 4",
		"--config=nowhere.yaml":            "nowhere.yaml",
		"--config=" + config:               "handoff.yaml:2:3: unknown key \"concurency\" under worker",
		"--actions=nowhere":                "--actions nowhere: is not a directory",
		"--actions=" + actions:             "broken.yaml:2:10: runtime",
		"--runtimes=shell,cobol":           "--runtimes: ",
		"--profile=hardend":                "did you mean \"hardened\"?",
		"--listen=8080":                    "--listen",
		"--listen=0.0.0.0:8080":            "other machines can reach",
		"--listen=" + busy.Addr().String(): "--listen " + busy.Addr().String() + ": something listens there",
	} {
		runChaos(t, "up", flag).expectOutput(t, 2, want)
	}
}
