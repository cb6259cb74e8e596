package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"handoff/chaos/shard"
	"handoff/sim/explore"
)

// shareUsage is the help text of --shard.
const shareUsage = "do share `I/N` only, as in 2/4; chaos merge puts the shares together"

// parseShare parses --shard.
func parseShare(text string) (shard.Share, error) {
	s, err := shard.Parse(text)
	if err != nil {
		return s, usageError("--shard %v", err)
	}
	return s, nil
}

// shareHeader describes the share and its job. It contains every flag that influences the results, so that no
// new flag is forgotten.
func shareHeader(cmd *cobra.Command, s shard.Share, seeds int, targets []explore.Target) shard.Header {
	h := shard.Header{Share: s, Commit: explore.Commit(), Go: runtime.Version(), Seeds: seeds, Asked: make(map[string]string)}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "shard", "out", "report", "json", "junit", "annotations", "quiet", "all", "help", "parallel":
			return
		}
		if !f.Hidden {
			h.Asked["--"+f.Name] = f.Value.String()
		}
	})
	sum := sha256.New()
	for _, t := range targets {
		fmt.Fprintf(sum, "%q %q %q %v\n", t.Scenario.Name, t.Profile, t.Scenario.Digest, t.Varied)
	}
	h.Digest = fmt.Sprintf("%x", sum.Sum(nil))
	return h
}

// removeOldShare removes an older share's file, so that merge does not read it before the new one is
// complete.
func removeOldShare(out string) error {
	if err := os.Remove(filepath.Join(out, shard.FileName)); err != nil && !os.IsNotExist(err) {
		return usageError("--out: removing the share of an earlier run: %s", fileErrorText(err))
	}
	return nil
}
