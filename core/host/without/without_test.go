package without_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"handoff/core/host/without"
)

// end records how a test ends.
type end struct{ how string }

func (e *end) Helper()                        {}
func (e *end) Fatalf(format string, a ...any) { e.how = "fail: " + fmt.Sprintf(format, a...) }
func (e *end) Skipf(format string, a ...any)  { e.how = "skip: " + fmt.Sprintf(format, a...) }

func TestNeedSkipsOrFailsTest(t *testing.T) {
	none := errors.New("no chromium in PATH")
	for _, c := range []struct {
		ci, declared string
		lack         error
		want         string
	}{
		{"", "", nil, ""},
		{"true", "", nil, ""},
		{"", "", none, "skip: not run: no chromium in PATH"},
		{"true", "", none, "fail: no chromium in PATH; provide it, or say that this build machine has none: HANDOFF_WITHOUT=chromium"},
		{"true", "docker, Chromium", none, "skip: not run: HANDOFF_WITHOUT names chromium"},
		{"true", "chromium", nil, "skip: not run: HANDOFF_WITHOUT names chromium"},
		{"true", "docker", none, "fail: no chromium in PATH"},
		{"", "crhomium", nil, `fail: HANDOFF_WITHOUT: unknown name "crhomium"; known are docker`},
	} {
		t.Setenv("CI", c.ci)
		t.Setenv(without.Variable, c.declared)
		e := &end{}
		without.Need(e, without.Chromium, c.lack)
		if !strings.HasPrefix(e.how, c.want) || (c.want == "") != (e.how == "") {
			t.Errorf("CI=%s %s=%s, %v: %q, want %q", c.ci, without.Variable, c.declared, c.lack, e.how, c.want)
		}
	}
}
