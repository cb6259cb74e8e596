package execution

import "math/bits"

// MaxExitCode is the largest exit code that a program can end with.
const MaxExitCode = 255

// ExitCodes is a set of exit codes from 1 to MaxExitCode. It is comparable, because an Action must be.
type ExitCodes struct{ words [4]uint64 }

// NewExitCodes returns a set of exit codes. It ignores numbers below 1 and above MaxExitCode.
func NewExitCodes[T ~int | ~int16 | ~int64](codes ...T) (s ExitCodes) {
	for _, c := range codes {
		if c >= 1 && c <= MaxExitCode {
			s.words[c/64] |= 1 << (c % 64)
		}
	}
	return s
}

// Has reports whether the set contains a code.
func (e ExitCodes) Has(code int) bool {
	return code >= 1 && code <= MaxExitCode && e.words[code/64]&(1<<(code%64)) != 0
}

// List returns the codes in order; empty, not nil, if there are none.
func (e ExitCodes) List() []int16 {
	codes := []int16{}
	for i, word := range e.words {
		for ; word != 0; word &= word - 1 {
			codes = append(codes, int16(i*64+bits.TrailingZeros64(word)))
		}
	}
	return codes
}
