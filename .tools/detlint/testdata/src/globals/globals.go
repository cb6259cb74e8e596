package globals

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
)

var ErrA = errors.New("a")

var (
	errB  error        = fmt.Errorf("b: %w", ErrA)
	namer              = regexp.MustCompile(`^[a-z]+$`)
	_     fmt.Stringer = (*thing)(nil)
)

var count int // want `package-level variable count: all simulated processes would share it`

var (
	table = []string{"a"}    // want `package-level variable table`
	names = map[int]string{} // want `package-level variable names`
	mu    sync.Mutex         // want `package-level variable mu`
	x, y  = 1, 2             // want `package-level variable x` `package-level variable y`
)

//detlint:ok constant table, nobody writes to it
var primes = [...]int{2, 3, 5}

var (
	evens = []int{2, 4} //detlint:ok constant table
	odds  = []int{1, 3} // want `package-level variable odds`
)

type failure struct{}

func (*failure) Error() string { return "failure" }

var errC = &failure{}

type thing struct{}

func (*thing) String() string { var local int; _ = local; return "" }

const limit = 3
