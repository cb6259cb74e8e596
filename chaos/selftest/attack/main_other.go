//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "attack: what an attack costs is read in /proc, so this runs on Linux only")
	os.Exit(4)
}
