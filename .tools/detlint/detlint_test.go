package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestDetlint(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Analyzer,
		"clock", "random", "concurrency", "contexts", "locks", "globals", "mapranges", "floats", "markers")
}
