package invariant

import (
	"fmt"
	"testing"
	"time"
)

func TestViolationDurationsAreRounded(t *testing.T) {
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{23*time.Second + 1234567, 12345678 * time.Nanosecond, 7}, "23.001s 12.346ms 7"},
		{[]any{8 * time.Second, 8*time.Second - 1, 7}, "8s 7.999999999s 7"},
		{[]any{8*time.Second + 5, 8*time.Second + 5, "x"}, "8s 8s x"},
	} {
		if got := fmt.Sprintf("%v %v %v", roundDurations(c.args)...); got != c.want {
			t.Errorf("%v is formatted as %q, want %q", c.args, got, c.want)
		}
	}
}
