//go:build !simulator

package main

// A build without the tag simulator is the whole program, which needs no note about its extent
// (simulator.go).
const extent, extentHelp = "", ""
