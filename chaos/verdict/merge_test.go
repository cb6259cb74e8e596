package verdict

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"handoff/chaos/verdict/discovery"
)

// fillFields sets every settable field to a value that depends on n.
func fillFields(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(n%2 == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d", n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillFields(v.Index(0), n)
	case reflect.Array:
		for i := range v.Len() {
			fillFields(v.Index(i), n)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillFields(key, n)
		fillFields(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillFields(v.Elem(), n)
	case reflect.Struct:
		if counts, is := v.Addr().Interface().(*discovery.Counts); is {
			*counts = discovery.Counts{}
			counts.Add([]uint64{uint64(n)}) //nolint:gosec // not negative
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillFields(v.Field(i), n)
			}
		}
	default:
		panic("what is a " + v.Kind().String() + "?")
	}
}

// judgedOnly lists the fields that Judge derives from all others.
var judgedOnly = []string{"Verdict", "Why"} //nolint:gochecknoglobals // a constant list

// filledScenario returns a result without zero fields. Fields that must be equal in all shares are the same
// for every n.
func filledScenario(n int) *Scenario {
	s := new(Scenario)
	fillFields(reflect.ValueOf(s).Elem(), n)
	fillFields(reflect.ValueOf(&s.tally).Elem(), n)
	common := new(Scenario)
	fillFields(reflect.ValueOf(common).Elem(), 1)
	fillFields(reflect.ValueOf(&common.tally).Elem(), 1)
	s.Name, s.About, s.World, s.Strategy, s.Profile = common.Name, common.About, common.World, common.Strategy, common.Profile
	s.Mutant, s.Digest = common.Mutant, common.Digest
	seeds := s.tally.Want.Seeds
	s.tally.Want = common.tally.Want
	s.tally.Want.Seeds = seeds
	return s
}

// mergeOutcome returns the result of a merge in a comparable form.
func mergeOutcome(s *Scenario, err error) string {
	text, bad := json.Marshal(s.Store())
	return fmt.Sprint(string(text), s.Wall, err, bad)
}

// If Merge ignored a new field, the merged result would silently have the first share's value.
func TestMergeCoversEveryScenarioField(t *testing.T) {
	parts := map[string]func(*Scenario) reflect.Value{
		"Scenario":       func(s *Scenario) reflect.Value { return reflect.ValueOf(s).Elem() },
		"Scenario.tally": func(s *Scenario) reflect.Value { return reflect.ValueOf(&s.tally).Elem() },
		"Want":           func(s *Scenario) reflect.Value { return reflect.ValueOf(&s.tally.Want).Elem() },
		"breach":         func(s *Scenario) reflect.Value { return reflect.ValueOf(s.tally.Broken["text 5"]).Elem() },
	}
	for name, part := range parts {
		of := part(filledScenario(5)).Type()
		for i := range of.NumField() {
			field := of.Field(i)
			if field.Name == "tally" || slices.Contains(judgedOnly, field.Name) {
				continue
			}
			if !field.IsExported() {
				t.Errorf("%s.%s is not exported, so files omit it", name, field.Name)
				continue
			}
			seen := make(map[string]bool)
			for _, n := range []int{1, 2, 3, 9} {
				s, o := filledScenario(5), filledScenario(3)
				o.tally.Broken = map[string]*breach{"text 5": {Seeds: 3, First: 3}}
				fillFields(part(o).Field(i), n)
				seen[mergeOutcome(s, s.Merge(o))] = true
			}
			if len(seen) < 2 {
				t.Errorf("%s.%s is not merged: whatever it is in the other share, the result is the same. Add it to Merge (merge.go)", name, field.Name)
			}
		}
	}
}

func TestMergeCoversEverySweepField(t *testing.T) {
	sweep := func() *Sweep {
		return &Sweep{Scenarios: []*Scenario{filledScenario(1)}, Go: "go", Commit: "c", Matrix: &Matrix{Mutants: make([]MatrixMutant, 1), Scenarios: []string{"s"}, Seeds: 1, Runs: [][]int{{0}}}}
	}
	parts := map[string]func(*Sweep) reflect.Value{
		"Sweep":  func(s *Sweep) reflect.Value { return reflect.ValueOf(s).Elem() },
		"Matrix": func(s *Sweep) reflect.Value { return reflect.ValueOf(s.Matrix).Elem() },
	}
	for name, part := range parts {
		of := part(sweep()).Type()
		for i := range of.NumField() {
			if slices.Contains(judgedOnly, of.Field(i).Name) {
				continue
			}
			seen := make(map[string]bool)
			for _, n := range []int{0, 1, 2} {
				s, o := sweep(), sweep()
				if n > 0 {
					fillFields(part(o).Field(i), n)
				}
				err := s.Merge(o)
				text, _ := json.Marshal(s)
				seen[fmt.Sprint(string(text), err)] = true
			}
			if len(seen) < 2 {
				t.Errorf("%s.%s is not merged: whatever it is in the other share, the result is the same. Add it to Merge (merge.go)", name, of.Field(i).Name)
			}
		}
	}
}

// hiddenFields lists the fields that a file would omit: unexported fields of types without MarshalJSON.
func hiddenFields(of reflect.Type, path string) (list []string) {
	switch of.Kind() {
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return hiddenFields(of.Elem(), path)
	case reflect.Map:
		return slices.Concat(hiddenFields(of.Key(), path), hiddenFields(of.Elem(), path))
	case reflect.Struct:
	default:
		return nil
	}
	if of.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(of).Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	for i := range of.NumField() {
		switch f := of.Field(i); {
		case f.Tag.Get("json") == "-" || of == reflect.TypeFor[Scenario]() && f.Name == "tally":
		case !f.IsExported():
			list = append(list, path+"."+f.Name)
		default:
			list = append(list, hiddenFields(f.Type, path+"."+f.Name)...)
		}
	}
	return list
}

func TestStoredResultKeepsEveryField(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[Stored](), reflect.TypeFor[Run](), reflect.TypeFor[Matrix]()} {
		if list := hiddenFields(of, of.Name()); len(list) > 0 {
			t.Errorf("a share does not keep %v: export them, or write and read them with MarshalJSON and UnmarshalJSON", list)
		}
	}
	want := filledScenario(7)
	text, err := json.Marshal(want.Store())
	if err != nil {
		t.Fatal(err)
	}
	var got Stored
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want.Wall = 0
	for i := range want.Violations {
		want.Violations[i].Missed, want.Violations[i].Causes, want.Violations[i].Past = nil, nil, 0
	}
	want.Verdict, want.Why = Pass, nil
	if have := got.Scenario; !reflect.DeepEqual(got.Tally, want.tally) {
		t.Errorf("stored\n%+v\nread\n%+v", want.tally, got.Tally)
	} else if have.tally = got.Tally; !reflect.DeepEqual(&have, want) {
		t.Errorf("stored\n%+v\nread\n%+v", want, &have)
	}
}

func TestRestoreRejectsImpossibleResults(t *testing.T) {
	good := func() *Scenario {
		s := NewScenario(Scenario{Name: "s"}, Want{Seeds: 1})
		s.Add(&Run{Seed: 1, Violations: []Violation{{Invariant: 3, Name: "fencing"}}})
		return s
	}
	if _, err := good().Store().Restore(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Scenario){
		"negative seeds":                  func(s *Scenario) { s.Seeds = -1 },
		"negative faults":                 func(s *Scenario) { s.Faults = []FaultCount{{Fired: -1}} },
		"more failures than runs":         func(s *Scenario) { s.Failing = 2 },
		"failure without violation":       func(s *Scenario) { s.Violations = nil },
		"violation without failure":       func(s *Scenario) { s.Failing = 0 },
		"more failed seeds than failures": func(s *Scenario) { s.FailedSeeds = []uint64{1, 2} },
		"too many causes":                 func(s *Scenario) { s.Causes = make([]Cause, keptCauses+1) },
		"causes out of order":             func(s *Scenario) { s.Causes = []Cause{{Rule: "b"}, {Rule: "a"}} },
		"too many violations":             func(s *Scenario) { s.Violations = make([]Violation, 6) },
		"rule without counts":             func(s *Scenario) { s.tally.Broken["x"] = nil },
		"violation without rule":          func(s *Scenario) { s.Violations[0].Invariant = 4 },
	} {
		s := good()
		change(s)
		if _, err := s.Store().Restore(); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
}
