package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/reports"
)

const (
	// sourceShares is the kind of a share of a measurement on source mutants.
	sourceShares = "source mutants"
	// sourceFile is the name of the results' file in the folder of a report.
	sourceFile = "source.json"
)

// sourceItem is a line of a share: the IDs of all mutants in order with the data that all results
// share, or the result of one mutant.
type sourceItem struct {
	Order  []string       `json:"order,omitempty"`
	Head   *score.Results `json:"head,omitempty"`
	Result *score.Result  `json:"result,omitempty"`
}

// mergeSource merges the shares of a measurement, and writes the results that a single machine
// would have written.
func (a *app) mergeSource(set shard.Set, f mergeFlags) error {
	var all *score.Results
	for _, file := range set.Files {
		part, err := readSourceShare(file)
		if err != nil {
			return usage("%v", err)
		}
		if all == nil {
			all = part
			continue
		}
		if err := all.Merge(part); err != nil {
			return usage("%s: %v", file.Path, err)
		}
	}
	fmt.Fprint(a.out, all.Summary())
	if missing := set.Absent(); missing != "" {
		fmt.Fprintf(a.out, "Not everything was merged: without share %s this proves less than was asked for.\n", missing)
		a.code = verdict.ExitInconclusive
	}
	path := filepath.Join(f.out, sourceFile)
	if err := all.Write(path); err != nil {
		return broken("the shares are merged, but writing the results failed: %v", err)
	}
	fmt.Fprintf(a.out, "results: %s; the page: bin/chaos mutants --source --page-only --out %[1]s --table FILE\n", path)
	return nil
}

// readSourceShare reads the results of one share. Everything in it that people see must be
// printable.
func readSourceShare(file shard.File) (*score.Results, error) {
	var order []string
	var part *score.Results
	_, err := shard.Each(file.Path, func(r *shard.Reader, item sourceItem) error {
		m := item.Result
		switch {
		case item.Head != nil && part == nil:
			part, order = item.Head, item.Order
			part.Results = map[string]*score.Result{}
			return nil
		case m == nil || part == nil:
			return r.Refuse(1, "the first line has what all results have in common, and each further line the result of one mutant")
		}
		if i := slices.Index(order, m.ID); i < 0 || !file.Header.Share.Has(i) {
			return r.Refuse(1, "result: the mutant %q is not in share %s", reports.Printable(m.ID, ""), file.Header.Share)
		}
		for _, text := range []string{m.ID, m.Package, m.Operator, m.About, m.By, m.Target, m.Message, m.Unit} {
			if text != reports.Printable(text, "") {
				return r.Refuse(1, "result: %s has letters that can't be shown", reports.Printable(m.ID, ""))
			}
		}
		part.Results[m.ID] = m
		return nil
	})
	if err == nil && part == nil {
		err = fmt.Errorf("%s has no results, not even what they have in common: run the share again", file.Path)
	}
	return part, err
}
