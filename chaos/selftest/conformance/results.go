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

// RecordVariable names a file to which the suites add their results about a server: results.json of
// this package, if a release of a server is to be listed.
const RecordVariable = "HANDOFF_CONFORMANCE_RECORD"

// Result is the extent to which one version of a server agreed with its model. It contains no date and no
// machine, so it changes only when the suite or the server does.
type Result struct {
	Server, Version string
	// Cases is the number that passed. Skipped is the number that can't be run on a server given by its
	// address.
	Cases   int `json:",omitempty"`
	Skipped int `json:",omitempty"`
	// Commands is the number of compared commands of random sequences. Calls is the number of explained calls
	// of concurrent clients.
	Commands int `json:",omitempty"`
	Calls    int `json:",omitempty"`
	// Scenarios is the number of named scenarios that passed in the live world, on this server and the other
	// server of its Debian release.
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

// Record adds a result to the file that RecordVariable names; without that variable it does
// nothing. Fields that are zero in the result keep their value in the file.
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
