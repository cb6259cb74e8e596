//go:build !simulator

package main

// A build without the tag simulator is the whole program (simulator.go), which has nothing to say about
// its extent.
const extent, extentHelp = "", ""
