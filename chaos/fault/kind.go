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
	// Name is what histories, reports and lists call it, such as database_slow. Recorded histories hold it, so it stays.
	Name string
	// Under is the key of the file that it shares with other kinds, such as database, and As what it is called there,
	// such as slow. Both are empty for a kind that is a key of its own, its Name.
	Under, As string
	// About says in one line what happens. Example is an entry of `faults` without its braces and its `when`.
	About, Example string
	// Ends is how the file says when it is over. Kinds under one key end in the same way.
	Ends Ends
	// Keys are the keys of its value. It has none if its value is a single name: a target, or As under a shared key.
	Keys []yamlfile.Key
	// Excuses lists what it can explain: a failed execution that nothing in the run explains breaks invariant 17.
	// Empty for a fault that is no excuse, and for one that the history tells of anyway: processes that end or stand
	// still, servers that are down.
	Excuses []Cause
	// Hinders says that it can keep an executor from detecting something in time, whomever it strikes.
	Hinders bool

	blank  func() Fault
	needs  reflect.Type
	inject func(f Fault, x *Injection, world any) (undo func(), err error)
}

// Ends is how a kind of fault comes to its end.
type Ends uint8

// The ways to end.
const (
	// WithFor lasts as long as the key `for` says.
	WithFor Ends = iota
	// WithRestart ends processes, which may come back after `restart_after`.
	WithRestart
	// ByItself is over by itself, and has neither key.
	ByItself
)

// Fault is one entry of a scenario: the fields of its kind.
type Fault interface {
	// Read reads the fields from the file. It refuses what is wrong at its position, and goes on.
	Read(r *Reader)
	// Strikes says whom the fault strikes.
	Strikes() Strikes
}

// Strikes is whom a fault strikes, as its announcement in the history tells it.
type Strikes struct {
	// Target is a process, a selector such as AnyWorker, a server, or a queue.
	Target string
	// Ends are the other ends of links.
	Ends []string
	// Messages is the type of the messages, or EveryMessage.
	Messages string
}

// Describer is a fault that is called otherwise than by its kind and its target.
type Describer interface {
	// Describe names the fault in reports, such as "partition shell-1 from broker".
	Describe() string
}

// Lasting is a fault that can still change something later than its `for` or its `restart_after` says.
type Lasting interface {
	// Lasts bounds the time from its beginning.
	Lasts(b Bounds) time.Duration
}

// Bounds is what a Lasting fault is told of its run.
type Bounds struct {
	// For and RestartAfter are the longest that may be drawn, 0 where the file says nothing.
	For, RestartAfter time.Duration
	// Targets is how many processes it strikes.
	Targets int
	// Stop bounds how long a process may take to stop gracefully and be noticed.
	Stop time.Duration
}

// Shown is a fault whose effect shows in the history, where a world can't tell by itself that it touched something.
type Shown interface {
	// ShownBy says that an event proves that the fault made a difference. workers names the workers by their ids.
	ShownBy(x *Injection, e *history.Event, workers Names) bool
}

// registered holds every kind by its name.
var registered = map[string]*Kind{} //detlint:ok a registry, which only init functions write

// Register makes a kind of fault known. F is the fault as a file has it, W what it needs of a world; both follow from
// inject, which begins the fault and returns what ends it: nil for a fault that ends by itself, which then calls
// Injection.End or Endless. Call it from an init function. It panics if the kind contradicts another one.
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
			return nil, fmt.Errorf("this world can't do a %s: it lacks %s", k.Name, missing(k.needs, reflect.TypeOf(world)))
		}
		return inject(f.(P), x, w)
	}
	if wrong := k.contradicts(); wrong != "" {
		panic("fault: " + k.Name + ": " + wrong)
	}
	registered[k.Name] = &k
}

// contradicts says what is wrong with a kind that is about to be registered.
func (k *Kind) contradicts() string {
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
		if other.key() != k.key() {
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

// Kinds lists every kind, by name.
func Kinds() []*Kind {
	list := make([]*Kind, 0, len(registered))
	for _, name := range slices.Sorted(maps.Keys(registered)) {
		list = append(list, registered[name])
	}
	return list
}

// Find returns a kind by its name, nil if there is none.
func Find(name string) *Kind { return registered[name] }

// Inject begins a fault of the kind in a world. It returns what ends it, nil for a fault that ends by itself.
func (k *Kind) Inject(f Fault, x *Injection, world any) (undo func(), err error) {
	return k.inject(f, x, world)
}

// Describe is what reports call a fault of the kind.
func (k *Kind) Describe(f Fault) string {
	if d, ok := f.(Describer); ok {
		return d.Describe()
	}
	if to := f.Strikes(); to.Target != Broker && to.Target != Database {
		return plain(k.Name) + " " + to.Target
	}
	return plain(k.Name)
}

// Lasts bounds how long after its beginning a fault of the kind can still change something.
func (k *Kind) Lasts(f Fault, b Bounds) time.Duration {
	if l, ok := f.(Lasting); ok {
		return l.Lasts(b)
	}
	return max(b.For, b.RestartAfter)
}

// Hampers says that a fault can keep an executor from detecting something in time, because it strikes one or a server
// that it needs.
func (k *Kind) Hampers(f Fault, strikesExecutor bool) bool {
	to := f.Strikes().Target
	return k.Hinders || strikesExecutor || to == Database || to == DeadLetterQueue
}
