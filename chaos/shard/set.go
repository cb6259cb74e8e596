package shard

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"handoff/core/config/yamlfile"
)

// Find returns the files that arguments name: a file, a folder with a share in it, or a folder of
// such folders.
func Find(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("no such share: %w; chaos run --shard writes one into its --out", err)
		}
		if !info.IsDir() {
			files = append(files, filepath.Clean(arg))
			continue
		}
		entries, err := os.ReadDir(arg)
		if err != nil {
			return nil, fmt.Errorf("reading a folder of shares: %w", err)
		}
		before := len(files)
		if in := filepath.Join(arg, FileName); isFile(in) {
			files, entries = append(files, in), nil
		}
		for _, entry := range entries {
			if in := filepath.Join(arg, entry.Name(), FileName); isFile(in) {
				files = append(files, in)
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("no share in %s: neither %s nor FOLDER/%s is there; chaos run --shard writes it into --out", arg, FileName, FileName)
		}
	}
	// One argument may name a file and another its folder.
	slices.Sort(files)
	return slices.Compact(files), nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// Set holds the files of one job, each share once, in order.
type Set struct {
	Files []File
	// Missing are the numbers of the missing shares.
	Missing []int
}

// Gather collects the files of one job. Two equal files of one share count once. The error names two files of
// different jobs, or two that contradict each other about one share.
func Gather(files []File) (s Set, err error) {
	if len(files) == 0 {
		return s, fmt.Errorf("no share was given")
	}
	known := make(map[int]File)
	for _, f := range files {
		if err := checkSameJob(files[0], f); err != nil {
			return s, err
		}
		other, twice := known[f.Header.Share.Index]
		if twice && other.Sum != f.Sum {
			return s, fmt.Errorf("%s and %s are both share %s, of the same commit, and say different things: "+
				"was one of them interrupted or changed? Leave that one out, or run the share again", other.Path, f.Path, f.Header.Share)
		}
		if !twice {
			known[f.Header.Share.Index] = f
		}
	}
	for i := 1; i <= files[0].Header.Share.Of; i++ {
		if f, there := known[i]; there {
			s.Files = append(s.Files, f)
		} else {
			s.Missing = append(s.Missing, i)
		}
	}
	return s, nil
}

// checkSameJob returns an error if two files belong to different jobs; it names a difference.
func checkSameJob(a, b File) error {
	x, y := jobFacts(a.Header), jobFacts(b.Header)
	names := maps.Clone(x)
	maps.Copy(names, y)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if x[name] != y[name] {
			return fmt.Errorf("%s and %s are not of one job: %s is %s in the first, and %s in the second; merge what one commit, "+
				"one Go and one command line made", a.Path, b.Path, name, cmp.Or(yamlfile.Cut(x[name]), "none"), cmp.Or(yamlfile.Cut(y[name]), "none"))
		}
	}
	return nil
}

// jobFacts maps descriptions for errors to the values that all files of a job have in common.
func jobFacts(h Header) map[string]string {
	all := map[string]string{
		"what was run": h.Kind, "the number of shares": fmt.Sprint(h.Share.Of), "the commit": h.Commit, "the version of Go": h.Go,
		"the digest of the scenarios": h.Digest, "the number of seeds": fmt.Sprint(h.Seeds),
	}
	maps.Copy(all, h.Asked)
	return all
}

// Absent returns the names of the missing shares, as in "2/4 and 4/4", or "" if none is missing.
func (s Set) Absent() string {
	if len(s.Missing) == 0 || len(s.Files) == 0 {
		return ""
	}
	const most = 12
	var names []string
	for _, i := range s.Missing {
		names = append(names, Share{i, s.Files[0].Header.Share.Of}.String())
	}
	last := names[len(names)-1]
	if len(names) > most {
		last, names = fmt.Sprintf("%d more", len(names)-most), names[:most+1]
	}
	if len(names) == 1 {
		return last
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + last
}
