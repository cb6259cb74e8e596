package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// File is a share that was found.
type File struct {
	Path   string
	Header Header
	// Sum is Reader.Sum.
	Sum string
}

// Set is the files of one job, each share once, in their order.
type Set struct {
	Files []File
	// Missing are the numbers of the missing shares.
	Missing []int
}

// Gather compares files. Two equal files of one share count once. The error names two files that
// can't belong to one job, or that contradict each other about one share.
func Gather(files []File) (Set, error) {
	if len(files) == 0 {
		return Set{}, fmt.Errorf("no share was given")
	}
	first := files[0]
	known := make(map[int]File)
	for _, f := range files {
		if err := same(first, f); err != nil {
			return Set{}, err
		}
		other, twice := known[f.Header.Share.Index]
		if twice && other.Sum != f.Sum {
			return Set{}, fmt.Errorf("%s and %s are both share %s, of the same commit, and say different things: "+
				"was one of them interrupted or changed? Leave that one out, or run the share again", other.Path, f.Path, f.Header.Share)
		}
		if !twice {
			known[f.Header.Share.Index] = f
		}
	}
	var s Set
	for i := 1; i <= first.Header.Share.Of; i++ {
		if f, there := known[i]; there {
			s.Files = append(s.Files, f)
		} else {
			s.Missing = append(s.Missing, i)
		}
	}
	return s, nil
}

// same says whether two files belong to one job.
func same(a, b File) error {
	differs := func(what, in, other string) error {
		return fmt.Errorf("%s and %s are not of one job: %s is %s in the first, and %s in the second; merge what one commit, "+
			"one Go and one command line made", a.Path, b.Path, what, or(in), or(other))
	}
	x, y := a.Header, b.Header
	for _, field := range []struct{ name, a, b string }{
		{"what was run", x.Kind, y.Kind},
		{"the number of shares", fmt.Sprint(x.Share.Of), fmt.Sprint(y.Share.Of)},
		{"the commit", x.Commit, y.Commit},
		{"the version of Go", x.Go, y.Go},
	} {
		if field.a != field.b {
			return differs(field.name, field.a, field.b)
		}
	}
	for _, flag := range slices.Sorted(maps.Keys(merged(x.Asked, y.Asked))) {
		if x.Asked[flag] != y.Asked[flag] {
			return differs(flag, x.Asked[flag], y.Asked[flag])
		}
	}
	if x.Digest != y.Digest {
		return differs("the digest of the scenarios", x.Digest, y.Digest)
	}
	return nil
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, b)
	return all
}

func or(text string) string {
	return cmp.Or(clip(strings.ToValidUTF8(text, "?")), "none")
}

// Absent names the missing shares, as in "2/4 and 4/4"; empty for none.
func (s Set) Absent() string {
	if len(s.Missing) == 0 || len(s.Files) == 0 {
		return ""
	}
	of := s.Files[0].Header.Share.Of
	const most = 12
	var names []string
	for _, i := range s.Missing[:min(len(s.Missing), most)] {
		names = append(names, Share{i, of}.String())
	}
	if more := len(s.Missing) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
