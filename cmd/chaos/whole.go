//go:build !simulator

package main

// A build without the tag simulator is the whole program, for which `chaos version` needs no note (see extent
// in simulator.go).
const extent, extentHelp = "", ""
