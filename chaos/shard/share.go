// Package shard divides work among machines that do not communicate, and combines their results.
//
// A Share is one of n equal parts of a numbered list. Its number alone determines it, so no machine waits for
// another. Each machine writes a file (Write) with the request and the results of its share. A Set checks
// that the files of one job are complete, that each share counts once, and that all files are from the same
// program and job.
package shard

import (
	"fmt"
	"strconv"
	"strings"
)

// Most is the largest number of shares that a job can have.
const Most = 10_000

// Share is part Index of Of parts, counted from 1. The zero Share is the whole list.
type Share struct{ Index, Of int }

// Parse reads "2/4" as the second of four shares. An empty text is the whole list.
func Parse(text string) (Share, error) {
	if text == "" {
		return Share{}, nil
	}
	index, of, both := strings.Cut(text, "/")
	i, bad := strconv.Atoi(index)
	n, worse := strconv.Atoi(of)
	switch {
	case !both || bad != nil || worse != nil:
		return Share{}, fmt.Errorf("%q is no share: write i/n, as in 2/4 for the second of four", text)
	case n < 1 || n > Most:
		return Share{}, fmt.Errorf("%q: there are from 1 to %d shares", text, Most)
	case i < 1 || i > n:
		return Share{}, fmt.Errorf("%q: the shares are counted from 1/%d to %d/%d", text, n, n, n)
	}
	return Share{i, n}, nil
}

// String returns the text that Parse reads.
func (s Share) String() string {
	if s.Whole() {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Of)
}

// Whole reports whether the share is the whole list.
func (s Share) Whole() bool { return s.Of == 0 }

// MarshalText implements encoding.TextMarshaler.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Share) UnmarshalText(text []byte) (err error) {
	*s, err = Parse(string(text))
	return err
}

// Has reports whether number k of a list, counted from 0, is in the share. Neighbours are in different
// shares, so that an expensive part of the list is spread.
func (s Share) Has(k int) bool { return s.Whole() || k%s.Of == s.Index-1 }

// Count returns how many of the n numbers beginning with first are in the share.
func (s Share) Count(first, n int) int {
	if s.Whole() {
		return n
	}
	below := func(k int) int { return (k + s.Of - s.Index) / s.Of }
	return below(first+n) - below(first)
}

// Part returns the share of a list, in the list's order.
func Part[T any](s Share, list []T) []T {
	var part []T
	for k, item := range list {
		if s.Has(k) {
			part = append(part, item)
		}
	}
	return part
}
