package fault

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/config/yamlfile"
)

// Kind is a kind of fault.
type Kind struct {
	// Name is the name in histories, reports and lists, such as database_slow. Recorded histories
	// contain it, so it never changes.
	Name string
	// Under is the YAML key that the kind shares with others, such as database, and As its name
	// below that key, such as slow. Both are empty for a kind with a key of its own, its Name.
	Under, As string
	// About describes in one line what happens. Example is an entry of `faults` without its braces and its
	// `when`.
	About, Example string
	// Ends is how the fault ends. It determines whether the fault takes the key `for`, `restart_after` or
	// neither. Kinds under one key end in the same way.
	Ends Ends
	// Keys are the YAML keys of its value. Empty if the value is a single name: a target, or As
	// under a shared key.
	Keys []yamlfile.Key
	// Excuses lists the causes by which a fault of this kind can explain a failed execution. An execution
	// that fails without an explanation breaks invariant 17. Empty if the fault explains no failure, or if
	// its effect has events of its own: processes that end or pause, servers that are down.
	Excuses []Cause
	// Draw draws an entry of `faults` of this kind, without `when`, `for` and `restart_after`.
	// Varied runs and drawn clusters use it. nil for a kind that is never drawn.
	Draw func(d *Dice) string
	// Hinders reports whether a fault of this kind can delay an executor's detection, whatever its target is.
	Hinders bool
	// Edits reports whether the fault only changes or locks rows in the database, so that every server and
	// process still answers.
	Edits bool

	blank  func() Fault
	needs  reflect.Type
	inject func(f Fault, x *Injection, world any) (undo func(), err error)
}

// Ends is how a kind of fault ends.
type Ends uint8

// The ways to end.
const (
	// WithFor lasts as long as the key `for` specifies.
	WithFor Ends = iota
	// WithRestart ends processes, which may restart after `restart_after`.
	WithRestart
	// ByItself ends without either key.
	ByItself
)

// Fault is one entry of a scenario: the fields of its kind.
type Fault interface {
	// Read reads the fields from the file. It notes each problem with its position and continues.
	Read(r *Reader)
	// Strikes returns the targets of the fault.
	Strikes() Strikes
}

// Strikes names the targets of a fault, as its events in the history do.
type Strikes struct {
	// Target is a process, a selector such as AnyWorker, a server, or a queue.
	Target string
	// Ends are the other ends of links, or a table.
	Ends []string
	// Messages is the type of the struck messages, or EveryMessage.
	Messages string
}

// Describer is implemented by faults that describe themselves. Other faults are described by their kind and
// their target.
type Describer interface {
	// Describe names the fault in reports, such as "partition shell-1 from broker".
	Describe() string
}

// Lasting is implemented by faults that can still have effects after their `for` or `restart_after`.
type Lasting interface {
	// Lasts returns an upper bound on the time from the fault's beginning to its last effect.
	Lasts(b Bounds) time.Duration
}

// Bounds holds the limits of a run from which Lasting.Lasts computes how long a fault can have effects.
type Bounds struct {
	// For and RestartAfter are the longest possible values, or 0 if the file has none.
	For, RestartAfter time.Duration
	// Targets is the number of processes that the fault strikes.
	Targets int
	// Stop bounds how long a process may take to stop gracefully, including the detection of its end.
	Stop time.Duration
}

// Shown is a fault whose effect only the history shows: the world can't detect whether the fault touched
// something.
type Shown interface {
	// ShownBy reports whether an event proves that the fault made a difference. workers names the workers
	// by their ids.
	ShownBy(x *Injection, e *history.Event, workers Names) bool
}

// registered maps each kind's name to the kind.
var registered = map[string]*Kind{} //detlint:ok a registry, which only init functions write

// Register makes a kind of fault known. F is the type of its faults, and W the interface that it needs from a
// world; Go infers both from inject. inject begins the fault and returns a function that ends it. For a fault
// that ends by itself it returns nil, and the fault later calls Injection.End or Injection.Endless.
//
// Call Register from an init function. It panics if the kind conflicts with another or lacks a
// name, a description or an example.
func Register[F any, W any, P interface {
	*F
	Fault
}](k Kind, inject func(f P, x *Injection, w W) (undo func(), err error),
) {
	k.blank = func() Fault { return P(new(F)) }
	k.needs = reflect.TypeFor[W]()
	k.inject = func(f Fault, x *Injection, world any) (func(), error) {
		w, able := world.(W)
		if !able {
			return nil, fmt.Errorf("this world can't do a %s: it lacks %s", k.Name, missingMethods(k.needs, reflect.TypeOf(world)))
		}
		return inject(f.(P), x, w)
	}
	if wrong := k.registrationConflict(); wrong != "" {
		panic("fault: " + k.Name + ": " + wrong)
	}
	registered[k.Name] = &k
}

// registrationConflict returns why a kind can't be registered, or "" if it can.
func (k *Kind) registrationConflict() string {
	switch {
	case k.Name == "" || k.About == "" || k.Example == "":
		return "a kind needs Name, About and Example"
	case registered[k.Name] != nil:
		return "it is registered already"
	case (k.Under == "") != (k.As == ""):
		return "Under and As go together"
	case k.needs.Kind() != reflect.Interface:
		return fmt.Sprintf("the world is an interface, not %v", k.needs)
	}
	for _, other := range Kinds() {
		if other.yamlKey() != k.yamlKey() {
			continue
		}
		switch {
		case other.Under == "":
			return fmt.Sprintf("%s is a key of its own, which no other kind can share", other.Name)
		case k.Under == "":
			return fmt.Sprintf("%s is the key of %s and others already", k.Name, other.Name)
		case other.As == k.As:
			return fmt.Sprintf("%s has the same name under %s", other.Name, k.Under)
		case other.Ends != k.Ends:
			return fmt.Sprintf("%s ends in another way, and stands under the same key %s", other.Name, k.Under)
		default:
		}
	}
	return ""
}

// Kinds lists every kind, sorted by name.
func Kinds() []*Kind {
	list := make([]*Kind, 0, len(registered))
	for _, name := range slices.Sorted(maps.Keys(registered)) {
		list = append(list, registered[name])
	}
	return list
}

// Find returns the kind with a name, or nil if there is none.
func Find(name string) *Kind { return registered[name] }

// Inject begins a fault of the kind in a world. undo ends it; it is nil for a fault that ends by itself.
// Inject fails if the world lacks the interface that the kind needs, or if the world itself fails.
func (k *Kind) Inject(f Fault, x *Injection, world any) (undo func(), err error) {
	return k.inject(f, x, world)
}

// Describe names a fault of the kind, for reports and histories.
func (k *Kind) Describe(f Fault) string {
	if d, ok := f.(Describer); ok {
		return d.Describe()
	}
	if to := f.Strikes(); to.Target != Broker && to.Target != Database {
		return spacedName(k.Name) + " " + to.Target
	}
	return spacedName(k.Name)
}

// Lasts returns an upper bound on the time from a fault's beginning to its last effect.
func (k *Kind) Lasts(f Fault, b Bounds) time.Duration {
	if l, ok := f.(Lasting); ok {
		return l.Lasts(b)
	}
	return max(b.For, b.RestartAfter)
}

// Hampers reports whether a fault can delay an executor's detection, because it strikes an executor or a
// server that the executor needs. An edit of rows doesn't impair the server.
func (k *Kind) Hampers(f Fault, strikesExecutor bool) bool {
	to := f.Strikes().Target
	return k.Hinders || strikesExecutor || to == Database && !k.Edits || to == DeadLetterQueue
}
