// Reached tells which statements no simulated run came to:
//
//	.tools/bin/reached -profile FILE -reasons FILE -most PERCENT FOLDER ...
//
// FILE is a coverage profile of the folders' packages (.ci/reached writes it). A statement that
// nothing reaches is one whose mistakes nothing shows, so each needs a reason, in the file of
// reasons, and together they may be so many percent of all. The exit code is 1 where one has no
// reason, where a reason is for what was reached or is no longer there, or where there are too many.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	profile := flag.String("profile", "", "the coverage profile `FILE`, as go tool covdata textfmt writes it")
	reasons := flag.String("reasons", "", "the YAML `FILE` of reasons")
	most := flag.Float64("most", 2, "how many percent of the statements may be left unreached")
	flag.Parse()
	if *profile == "" || *reasons == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ok, err := report(os.Stdout, *profile, *reasons, *most, flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}
