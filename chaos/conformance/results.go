package conformance

import (
	"cmp"
	_ "embed" // the committed results
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

//go:embed results.json
var committed []byte

// RecordVariable names a file to which the suites add what they found about a server: results.json of
// this package, when a release of a server is to be listed.
const RecordVariable = "HANDOFF_CONFORMANCE_RECORD"

// Result is what one version of a server agreed with its model on. It holds no date and no machine: it
// changes when the suite or the server does.
type Result struct {
	Server, Version string
	// Cases were passed; Skipped could not be asked of a server that was given by its address.
	Cases   int `json:",omitempty"`
	Skipped int `json:",omitempty"`
	// Commands of random sequences were compared, and calls of concurrent clients explained.
	Commands int `json:",omitempty"`
	Calls    int `json:",omitempty"`
	// Scenarios are the named ones that passed in the live world, on this server and the other one of its release of Debian.
	Scenarios int `json:",omitempty"`
}

// Results lists the committed results, by server and version.
func Results() []Result {
	var all []Result
	if err := json.Unmarshal(committed, &all); err != nil {
		panic(fmt.Sprintf("conformance: results.json: %v", err)) // it is part of the binary, and a test reads it
	}
	return all
}

// Record adds a result to the file that RecordVariable names; without it nothing is done. What is zero in
// the result is left as it stands there.
func Record(r Result) error {
	path := os.Getenv(RecordVariable)
	if path == "" {
		return nil
	}
	var all []Result
	text, err := os.ReadFile(path) //nolint:gosec // the caller's own file
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("the results in %s=%s: %w", RecordVariable, path, err)
	}
	i := slices.IndexFunc(all, func(o Result) bool { return o.Server == r.Server && o.Version == r.Version })
	if i < 0 {
		i = len(all)
		all = append(all, Result{Server: r.Server, Version: r.Version})
	}
	old := &all[i]
	if r.Cases > 0 {
		old.Cases, old.Skipped = r.Cases, r.Skipped
	}
	old.Commands, old.Calls, old.Scenarios = cmp.Or(r.Commands, old.Commands), cmp.Or(r.Calls, old.Calls), cmp.Or(r.Scenarios, old.Scenarios)
	slices.SortFunc(all, func(a, b Result) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Version, b.Version))
	})
	text, err = json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // a file of the repository
}
