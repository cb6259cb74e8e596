package policytest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/worker"
)

// core holds the functions of the core that the questions call. A wrong core has another function.
type core struct {
	defaults   func(config.Profile) config.Config
	validate   func(config.Config) []config.Problem
	start      func([]config.Flag) error
	exitReason func(code int, retried execution.ExitCodes) execution.Reason
	executors  func(config.RabbitMQ) broker.Topology
	workers    func(config.RabbitMQ, execution.WorkerID) broker.Topology
	bounded    func(store.DeadLetter) store.DeadLetter
}

func theCore() core {
	return core{
		config.Default, config.Config.Validate, readDaemonSettings, worker.ReasonOf, broker.ExecutorTopology, broker.WorkerTopology, store.DeadLetter.Bounded,
	}
}

// readDaemonSettings reads settings as a daemon does.
func readDaemonSettings(flags []config.Flag) error {
	_, problems := config.Load(config.Input{Flags: flags})
	var errs []error
	for _, p := range problems {
		errs = append(errs, errors.New(p.Text()))
	}
	return errors.Join(errs...)
}

// question calls a function of a core that depends on its inputs alone, with inputs drawn at the edges. It
// describes the first answer that differs from the contract's; empty if none does.
type question func(t *rapid.T, c *core) string

// A run meets the exact value of a bound by chance at best, so the core is called at its bounds. Questions of
// oracle/policy_test.go and of the tests of core are not repeated here.
func TestCoreFollowsContract(t *testing.T) {
	for name, ask := range map[string]question{
		"defaults": askDefaults, "exit codes": askExitCodes, "topology": askTopology, "dead letters": askDeadLetters, "settings": askSettings, "start": askStart,
	} {
		t.Run(name, func(t *testing.T) {
			right := theCore()
			rapid.Check(t, func(t *rapid.T) {
				if wrong := ask(t, &right); wrong != "" {
					t.Fatal(wrong)
				}
			})
		})
	}
}

// Each setting is tested at each of its bounds.
func TestSettingsBeyondBoundsAreRefused(t *testing.T) {
	c := theCore()
	for _, p := range config.Profiles() {
		for n := range settingBounds(0) {
			for side := -1; side <= 1; side++ {
				short, long := oracle.Defaults(p), oracle.Defaults(p)
				settingBounds(time.Nanosecond)[n](&short, side)
				settingBounds(time.Millisecond)[n](&long, side)
				if wrong := c.checkSettings(short); wrong != "" {
					t.Error(wrong)
				}
				if wrong := c.checkStart(long); wrong != "" {
					t.Error(wrong)
				}
			}
		}
	}
}

// Each question detects a wrong answer.
func TestQuestionsDetectFaultyCore(t *testing.T) {
	for _, c := range []struct {
		name  string
		ask   question
		wrong func(c *core)
	}{
		{"the default of executor.claim_expiry is twice as long", askDefaults, func(c *core) {
			c.defaults = func(p config.Profile) config.Config {
				d := config.Default(p)
				d.Executor.ClaimExpiry *= 2
				return d
			}
		}},
		{"an exit code above 127 counts as undeclared, as if it were negative", askExitCodes, func(c *core) {
			c.exitReason = func(code int, retried execution.ExitCodes) execution.Reason {
				if code > 127 {
					retried = execution.ExitCodes{}
				}
				return worker.ReasonOf(code, retried)
			}
		}},
		{"the key of a worker's cancellations has its number in base nine", askTopology, func(c *core) {
			c.workers = func(r config.RabbitMQ, id execution.WorkerID) broker.Topology {
				t := broker.WorkerTopology(r, id)
				t.Bindings[1].Pattern = "execution.cancel.worker." + strconv.FormatInt(int64(id), 9)
				return t
			}
		}},
		{"a string that is too long is cut in the middle of a character", askDeadLetters, func(c *core) {
			c.bounded = func(d store.DeadLetter) store.DeadLetter {
				b := d.Bounded()
				if len(b.Outcome) < len(d.Outcome) {
					b.Outcome = d.Outcome[:len(b.Outcome)+1]
				}
				return b
			}
		}},
		{"a claim may expire as soon as two statements have timed out", askSettings, func(c *core) {
			c.validate = func(x config.Config) []config.Problem {
				if x.Executor.ClaimExpiry == 2*x.Executor.StatementTimeout {
					x.Executor.ClaimExpiry++
				}
				return x.Validate()
			}
		}},
		{"a daemon with invalid settings starts all the same", askStart, func(c *core) {
			c.start = func([]config.Flag) error { return nil }
		}},
	} {
		wrong, found := theCore(), ""
		c.wrong(&wrong)
		answer := rapid.Custom(func(t *rapid.T) string { return c.ask(t, &wrong) })
		for seed := 0; seed < 3000 && found == ""; seed++ {
			found = answer.Example(seed)
		}
		if found == "" {
			t.Errorf("nothing is wrong if %s", c.name)
		}
		t.Logf("%s: %s", c.name, found)
	}
}

func drawNumber(t *rapid.T, least, most int) int {
	return rapid.IntRange(least, most).Draw(t, "number")
}

func drawOne[T any](t *rapid.T, of ...T) T { return rapid.SampledFrom(of).Draw(t, "pick") }

// differenceOf describes how an answer differs from the contract's.
func differenceOf(about string, answer, right any) string {
	if reflect.DeepEqual(answer, right) {
		return ""
	}
	return fmt.Sprintf("%s: the contract says %v, the core says %v", about, right, answer)
}

func askDefaults(t *rapid.T, c *core) string {
	p := drawOne(t, config.Hardened, config.Documented)
	if d := differingSettings("", reflect.ValueOf(oracle.Defaults(p)), reflect.ValueOf(c.defaults(p))); len(d) > 0 {
		return fmt.Sprintf("the defaults of %s that differ (docs/contract.md): %v", p, d)
	}
	return ""
}

// setting is a key whose value differs from the right one.
type setting struct {
	key   string
	value any
}

func differingSettings(key string, right, is reflect.Value) (differ []setting) {
	if right.Kind() == reflect.Struct {
		for i := range right.NumField() {
			name, _, _ := strings.Cut(right.Type().Field(i).Tag.Get("yaml"), ",")
			differ = append(differ, differingSettings(strings.TrimPrefix(key+"."+name, "."), right.Field(i), is.Field(i))...)
		}
		return differ
	}
	if !right.Equal(is) {
		differ = append(differ, setting{key, is.Interface()})
	}
	return differ
}

// askExitCodes checks the reason of an exit code, for an action that declares none and for one that declares
// some (docs/actions.md).
func askExitCodes(t *rapid.T, c *core) string {
	declared := rapid.SliceOfDistinct(rapid.IntRange(1, oracle.MostExitCode), rapid.ID[int]).Draw(t, "declared")
	set := execution.NewExitCodes(append(declared, 0, -1, oracle.MostExitCode+1)...)
	for code := 1; code <= oracle.MostExitCode; code++ {
		about := fmt.Sprintf("the reason of exit code %d", code)
		if wrong := differenceOf(about, c.exitReason(code, execution.ExitCodes{}), oracle.ReasonOf(code, nil)); wrong != "" {
			return wrong
		}
		if wrong := differenceOf(fmt.Sprint(about, " of an action that declares ", declared), c.exitReason(code, set), oracle.ReasonOf(code, declared)); wrong != "" {
			return wrong
		}
	}
	return ""
}

// askTopology checks the declarations of an executor and a worker at the broker (docs/queues.md).
func askTopology(t *rapid.T, c *core) string {
	r := oracle.Defaults(drawOne(t, config.Hardened, config.Documented)).MessageQueue.RabbitMQ
	r.QueueType, r.DeadLetter.Enabled = drawOne(t, "quorum", "classic"), drawNumber(t, 0, 3) > 0
	r.WorkerQueueTTLMS, r.DeadLetter.Exchange = int64(drawNumber(t, 1, 1_000_000)), drawOne(t, "attune.dlx", "other.dlx")
	id := execution.WorkerID(drawOne(t, 1, 9, 10, 36, 1<<40, drawNumber(t, 1, 1000)))
	for who, both := range map[string][2]any{
		"an executor":             {sortedParts(c.executors(r)), sortedParts(asDeclared(oracle.ExecutorTopology(&r)))},
		fmt.Sprint("worker ", id): {sortedParts(c.workers(r, id)), sortedParts(asDeclared(oracle.WorkerTopology(&r, id)))},
	} {
		if wrong := differenceOf("what "+who+" declares", both[0], both[1]); wrong != "" {
			return wrong
		}
	}
	return ""
}

// asDeclared returns a topology of the contract in the core's types.
func asDeclared(right oracle.Topology) (t broker.Topology) {
	for _, e := range right.Exchanges {
		t.Exchanges = append(t.Exchanges, broker.Exchange{Name: e.Name, Kind: broker.ExchangeKind(e.Kind)})
	}
	for _, q := range right.Queues {
		t.Queues = append(t.Queues, broker.Queue{Name: q.Name, Type: q.Type, TTL: q.TTL, DeadLetterExchange: q.DeadLetterExchange, KeepsReturned: q.KeepsReturned})
	}
	for _, b := range right.Bindings {
		t.Bindings = append(t.Bindings, broker.Binding{Exchange: b.Exchange, Pattern: b.Key, Queue: b.Queue})
	}
	return t
}

// sortedParts lists the parts of a topology, which may be declared in any order.
func sortedParts(t broker.Topology) (parts []string) {
	for _, e := range t.Exchanges {
		parts = append(parts, fmt.Sprintf("exchange %+v", e))
	}
	for _, q := range t.Queues {
		parts = append(parts, fmt.Sprintf("queue %+v", q))
	}
	for _, b := range t.Bindings {
		parts = append(parts, fmt.Sprintf("binding %+v", b))
	}
	slices.Sort(parts)
	return parts
}

// askDeadLetters checks how foreign texts are stored (docs/contract.md, "Numbers that no key changes"):
// within the bound, without a byte that a database refuses, and complete except for a character that the
// bound cuts through.
func askDeadLetters(t *rapid.T, c *core) string {
	const longestBody, longestQueue, longestOutcome = 16 << 10, 255, 500
	queue, outcome, body := drawForeignText(t, longestQueue), drawForeignText(t, longestOutcome), longestBody+drawNumber(t, -1, 1)
	kept := c.bounded(store.DeadLetter{Queue: queue, Outcome: outcome, Body: make([]byte, body)})
	if !isKeptText(queue, kept.Queue, longestQueue) {
		return fmt.Sprintf("the queue %q is stored as %q", queue, kept.Queue)
	}
	if !isKeptText(outcome, kept.Outcome, longestOutcome) {
		return fmt.Sprintf("the outcome %q is stored as %q", outcome, kept.Outcome)
	}
	return differenceOf("the stored and the recorded length of a body", [2]int{len(kept.Body), kept.BodyBytes}, [2]int{min(body, longestBody), body})
}

// drawForeignText draws a text whose length is near a bound, with characters of one to four bytes, and sometimes
// bytes that are not a character.
func drawForeignText(t *rapid.T, bound int) string {
	text := drawOne(t, "", "\xff", "\x00", "\xe2\x82", "ok\xc0")
	text += strings.Repeat("a", bound+drawNumber(t, -10, 3)-len(text))
	for range 4 {
		text += drawOne(t, "a", "ü", "€", "😀")
	}
	return text
}

// isKeptText reports whether kept is text, or its beginning of at most bound bytes, with other bytes in place of
// those that a database refuses.
func isKeptText(text, kept string, bound int) bool {
	least := min(len(text), bound)
	if len(text) > bound && utf8.ValidString(text) {
		for !utf8.RuneStart(text[least]) {
			least--
		}
	} else if len(text) > bound {
		least -= utf8.UTFMax
	}
	for n := least; n <= min(len(text), bound); n++ {
		if kept == strings.ReplaceAll(strings.ToValidUTF8(text[:n], "?"), "\x00", "?") {
			return true
		}
	}
	return false
}

// drawSettings draws the defaults of a profile with some settings moved to a bound: just below it, at
// it or just above it.
func drawSettings(t *rapid.T, most int, step time.Duration) config.Config {
	c := oracle.Defaults(drawOne(t, config.Hardened, config.Documented))
	for range drawNumber(t, 1, most) {
		drawOne(t, settingBounds(step)...)(&c, drawNumber(t, -1, 1))
	}
	return c
}

func askSettings(t *rapid.T, c *core) string {
	return c.checkSettings(drawSettings(t, 3, time.Nanosecond))
}

// checkSettings compares the verdicts on a configuration: whether a daemon may start with it.
func (c *core) checkSettings(x config.Config) string {
	about := fmt.Sprintf("may a daemon start with %v", differingSettings("", reflect.ValueOf(oracle.Defaults(x.Profile)), reflect.ValueOf(x)))
	problems, refused := c.validate(x), oracle.Unlawful(&x)
	var named, right []string
	for _, p := range problems {
		named = append(named, p.Key)
	}
	for _, r := range refused {
		right = append(right, r.Key)
		if !slices.ContainsFunc(problems, func(p config.Problem) bool {
			return p.Key == r.Key && !slices.ContainsFunc(r.Tells, func(v any) bool { return !strings.Contains(p.Why, fmt.Sprint(v)) })
		}) {
			return fmt.Sprintf("%s: by the contract a message about %s has the values %v, the core says %v", about, r.Key, r.Tells, problems)
		}
	}
	section := func(key string) int {
		first, _, _ := strings.Cut(key, ".")
		return slices.Index([]string{"profile", "executor", "worker", "message_queue", "retry", "health", "database", "retention"}, first)
	}
	if !slices.IsSortedFunc(named, func(a, b string) int { return section(a) - section(b) }) {
		return fmt.Sprintf("%s: the keys must be in the order of the sections, the core names %v", about, named)
	}
	slices.Sort(named)
	slices.Sort(right)
	return differenceOf(about+", refused are", named, right)
}

func askStart(t *rapid.T, c *core) string { return c.checkStart(drawSettings(t, 1, time.Millisecond)) }

// checkStart compares a daemon's reactions to settings on its command line: it starts if they are lawful, and
// otherwise names one that is not. Errors that follow from a setting that can't be read come later.
func (c *core) checkStart(x config.Config) string {
	flags := []config.Flag{
		{Name: "--profile", Path: "profile", Value: string(x.Profile)},
		{Name: "--database.url", Path: "database.url", Value: "postgres://h/d"},
		{Name: "--message_queue.rabbitmq.url", Path: "message_queue.rabbitmq.url", Value: "amqp://h/"},
	}
	set := differingSettings("", reflect.ValueOf(oracle.Defaults(x.Profile)), reflect.ValueOf(x))
	for _, s := range set {
		flags = append(flags, config.Flag{Name: "--" + s.key, Path: s.key, Value: fmt.Sprint(s.value)})
	}
	refused, err := oracle.Unlawful(&x), c.start(flags)
	if (len(refused) > 0) != (err != nil) || err != nil && !slices.ContainsFunc(refused, func(r oracle.Refusal) bool { return strings.Contains(err.Error(), r.Key) }) {
		return fmt.Sprintf("does a daemon start with %v: the contract refuses %v, the daemon says %v", set, refused, err)
	}
	return ""
}
