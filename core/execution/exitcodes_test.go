package execution

import (
	"slices"
	"testing"
)

func TestExitCodesHoldTheirMembers(t *testing.T) {
	s := NewExitCodes(255, 64, 1, 63, 1, 0, 256, -1)
	if got := s.List(); !slices.Equal(got, []int16{1, 63, 64, 255}) {
		t.Errorf("the set lists %v", got)
	}
	for _, code := range []int{-1, 0, 2, 65, 128, 256, 320} {
		if s.Has(code) {
			t.Errorf("the set holds %d, which was not added", code)
		}
	}
	for _, code := range []int{1, 63, 64, 255} {
		if !s.Has(code) {
			t.Errorf("the set lacks %d", code)
		}
	}
	if none := (ExitCodes{}); none.List() == nil || len(none.List()) != 0 || none != NewExitCodes(0) {
		t.Errorf("the empty set is %v", none)
	}
}
