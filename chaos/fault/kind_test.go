package fault

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// The world interface in the signature of a kind's inject function determines what the kind needs. Lacks must
// return a reason exactly if a world misses one of its methods.
func TestWorldLacksKindsWithMissingMethods(t *testing.T) {
	lacking := 0
	for _, offers := range []reflect.Type{reflect.TypeFor[Live](), reflect.TypeFor[Simulated](), reflect.TypeFor[Processes]()} {
		for _, k := range Kinds() {
			var without []string
			for i := range k.needs.NumMethod() {
				if name := k.needs.Method(i).Name; !has(offers, name) {
					without = append(without, name)
				}
			}
			if why := k.Lacks(offers); (why != "") != (len(without) > 0) {
				t.Errorf("%s: %v has no %v, and Lacks says %q", k.Name, offers, without, why)
			} else if why != "" {
				lacking++
			}
		}
	}
	if lacking < 30 {
		t.Errorf("only %d worlds lack a kind", lacking)
	}
}

func has(offers reflect.Type, method string) bool {
	_, there := offers.MethodByName(method)
	return there
}

func TestLacksExplainsMissingInterface(t *testing.T) {
	live, simulated, one := reflect.TypeFor[Live](), reflect.TypeFor[Simulated](), reflect.TypeFor[interface{ Process(string) Process }]()
	for _, x := range []struct {
		kind   string
		offers reflect.Type
		want   string
	}{
		{"clock_step", live, "its processes and servers share one machine and its clocks"},
		{"freeze", live, "its processes and servers share one machine and its clocks"},
		{"cancel_consumers", live, "RabbitMQ cancels the consumers of a queue only when the queue goes or moves; delete_queue does that"},
		{"crash", live, ""},
		{"clock_step", simulated, ""},
		{"cancel_consumers", simulated, ""},
		{"crash", one, ""},
		{"partition", one, "nothing stands on the links between its processes and servers"},
		{"twin", one, "it can't start a second process under a worker's name"},
	} {
		if why := Find(x.kind).Lacks(x.offers); why != x.want {
			t.Errorf("%s: %v lacks %q, want %q", x.kind, x.offers, why, x.want)
		}
	}
}

// Each interface that a kind needs has a text that explains what a world without it can't do.
func TestEveryInterfaceHasLackingText(t *testing.T) {
	for _, k := range Kinds() {
		if why := k.Lacks(reflect.TypeFor[interface{}]()); why == "" || strings.Contains(why, "it lacks") {
			t.Errorf("%s: a world without anything lacks %q", k.Name, why)
		}
	}
}

// A world that lacks an interface refuses to inject, even if the caller didn't ask Lacks first.
func TestInjectFailsWithoutInterface(t *testing.T) {
	k := Find("clock_step")
	undo, err := k.Inject(k.blank(), &Injection{}, struct{}{})
	if undo != nil || err == nil || !strings.Contains(err.Error(), "this world can't do a clock_step: it lacks fault.Clocks (DriftClock, ShiftClock,") {
		t.Errorf("it is refused with %v", err)
	}
}

// nothing is a fault without any effect.
type nothing struct{ Target string }

func (*nothing) Read(*Reader)       {}
func (n *nothing) Strikes() Strikes { return Strikes{Target: n.Target} }

func (*nothing) inject(*Injection, Processes) (func(), error) { return nil, nil }

func (*nothing) injectInto(*Injection, struct{}) (func(), error) { return nil, nil }

func TestRegisterRefusesConflictingKinds(t *testing.T) {
	before := fmt.Sprint(names())
	kind := func(change func(k *Kind)) Kind {
		k := Kind{Name: "one more", Ends: WithFor, About: "nothing happens", Example: "one more: shell-1"}
		change(&k)
		return k
	}
	for want, k := range map[string]Kind{
		"fault: : a kind needs Name, About and Example":                kind(func(k *Kind) { k.Name = "" }),
		"fault: one more: a kind needs Name, About and Example":        kind(func(k *Kind) { k.About = "" }),
		"fault: crash: it is registered already":                       kind(func(k *Kind) { k.Name = "crash" }),
		"fault: one more: Under and As go together":                    kind(func(k *Kind) { k.Under = "broker" }),
		"fault: one more: broker_alarm has the same name under broker": kind(func(k *Kind) { k.Under, k.As = "broker", "alarm" }),
		"fault: one more: broker_alarm ends in another way, and stands under the same key broker": kind(func(k *Kind) {
			k.Under, k.As, k.Ends = "broker", "melt", ByItself
		}),
		"fault: one more: crash is a key of its own, which no other kind can share": kind(func(k *Kind) { k.Under, k.As = "crash", "hard" }),
		"fault: broker: broker is the key of broker_alarm and others already":       kind(func(k *Kind) { k.Name = "broker" }),
	} {
		if got := refusal(func() { Register(k, (*nothing).inject) }); got != want {
			t.Errorf("%+v is registered with %q, want %q", k, got, want)
		}
	}
	if got := refusal(func() { Register(kind(func(*Kind) {}), (*nothing).injectInto) }); got != "fault: one more: the world is an interface, not struct {}" {
		t.Errorf("a kind that needs a struct is registered with %q", got)
	}
	if after := fmt.Sprint(names()); after != before {
		t.Errorf("the kinds are %v, were %v", after, before)
	}
}

// refusal returns the text with which a function panics, or "" if it doesn't panic.
func refusal(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

func names() (all []string) {
	for _, k := range Kinds() {
		all = append(all, k.Name)
	}
	return all
}
