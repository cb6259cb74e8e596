package main

import "testing"

// Impossible requests are refused before any server starts.
func TestUpRefusesWhatItCantRun(t *testing.T) {
	for flag, want := range map[string]string{
		"--workers=17":          "--workers 17: must be from 1 to 16",
		"--executors=0":         "--executors 0: must be from 1 to 4",
		"--config=nowhere.yaml": "nowhere.yaml",
	} {
		chaos(t, "up", flag).wants(t, 2, want)
	}
}
