package policies

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"handoff/chaos/oracle"
	"handoff/core/config"
)

// tweak moves one setting to one of its bounds: side is -1 for just below it, 0 for the bound, 1
// for just above.
type tweak func(c *config.Config, side int)

// tweaks are the bounds of "What must hold together" and "What a setting may be" in
// docs/contract.md. step is the distance of a duration from its bound.
func tweaks(step time.Duration) []tweak {
	duration := func(of func(*config.Config) *time.Duration, bound func(*config.Config) time.Duration) tweak {
		return func(c *config.Config, side int) { *of(c) = bound(c) + time.Duration(side)*step }
	}
	zero := func(*config.Config) time.Duration { return 0 }
	count := func(of func(*config.Config) *int, bound int) tweak {
		return func(c *config.Config, side int) { *of(c) = bound + side }
	}
	share := func(of func(*config.Config) *float64, bound float64) tweak {
		return func(c *config.Config, side int) { *of(c) = bound + float64(side)/1000 }
	}
	const ms = time.Millisecond
	return []tweak{
		duration(func(c *config.Config) *time.Duration { return &c.Executor.DispatchTimeout }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.ScheduledTimeout }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.TimeoutCheckInterval }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.ReconcileInterval }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.ClaimExpiry }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.ConfirmTimeout }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.StatementTimeout }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.HealthCheckInterval }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.FiguresInterval }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.UnschedulableGrace }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Worker.HeartbeatInterval }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Worker.StatementTimeout }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Worker.ShutdownTimeout }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Worker.KillGrace }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.MessageQueue.RabbitMQ.Heartbeat }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.MessageQueue.RabbitMQ.ReconnectMin }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Health.Window }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Database.PingTimeout }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Database.PingTimeout }, func(*config.Config) time.Duration { return 500 * ms }),

		duration(func(c *config.Config) *time.Duration { return &c.MessageQueue.RabbitMQ.ReconnectMin }, func(c *config.Config) time.Duration { return c.MessageQueue.RabbitMQ.ReconnectMax }),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.ReapGrace }, func(c *config.Config) time.Duration { return c.Worker.KillGrace }),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.ScheduledTimeout }, func(c *config.Config) time.Duration { return c.Executor.DispatchTimeout }),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.ClaimExpiry }, func(c *config.Config) time.Duration { return 2 * c.Executor.StatementTimeout }),
		duration(func(c *config.Config) *time.Duration { return &c.Executor.QueueRetention }, func(c *config.Config) time.Duration { return oracle.QueueTTL(&c.MessageQueue.RabbitMQ) }),
		func(c *config.Config, side int) {
			c.Worker.HeartbeatStalenessMultiplier *= 40
			c.Executor.QueueRetention = oracle.Lease(&c.Worker) + time.Duration(side)*step
		},
		duration(func(c *config.Config) *time.Duration { return &c.Worker.FenceMargin }, func(c *config.Config) time.Duration {
			return c.Worker.KillGrace + oracle.Lease(&c.Worker)/100 + c.Worker.StatementTimeout + oracle.ResultWindow
		}),
		duration(func(c *config.Config) *time.Duration { return &c.Worker.FenceMargin }, func(c *config.Config) time.Duration {
			return oracle.Lease(&c.Worker) - c.Worker.HeartbeatInterval - c.Worker.StatementTimeout
		}),
		func(c *config.Config, side int) {
			c.MessageQueue.RabbitMQ.WorkerQueueTTLMS = int64(c.Executor.DispatchTimeout/ms) + int64(side)
		},
		func(c *config.Config, side int) {
			c.MessageQueue.RabbitMQ.WorkerQueueTTLMS = int64(c.Executor.ScheduledTimeout/ms) + int64(side)
		},
		duration(func(c *config.Config) *time.Duration { return &c.Retention.Executions }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Retention.Transitions }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Retention.RefusedResults }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Retention.Expiries }, zero),
		duration(func(c *config.Config) *time.Duration { return &c.Retention.Expiries }, func(c *config.Config) time.Duration { return c.Health.Window }),
		duration(func(c *config.Config) *time.Duration { return &c.Retention.Incarnations }, func(c *config.Config) time.Duration { return oracle.Lease(&c.Worker) }),
		duration(func(c *config.Config) *time.Duration { return &c.Retention.Workers }, func(c *config.Config) time.Duration { return c.Executor.QueueRetention }),
		duration(func(c *config.Config) *time.Duration { return &c.Retention.Interval }, zero),

		count(func(c *config.Config) *int { return &c.Retention.StepSize }, 1),
		count(func(c *config.Config) *int { return &c.Retention.StepSize }, 10000),
		count(func(c *config.Config) *int { return &c.Executor.MaxDispatches }, 1),
		count(func(c *config.Config) *int { return &c.Executor.DispatchAhead }, 0),
		count(func(c *config.Config) *int { return &c.Executor.DispatchesPerMessage }, 1),
		count(func(c *config.Config) *int { return &c.Executor.DispatchesPerMessage }, 1000),
		count(func(c *config.Config) *int { return &c.Executor.BatchSize }, 1),
		count(func(c *config.Config) *int { return &c.Executor.BatchSize }, 1000),
		count(func(c *config.Config) *int { return &c.Executor.BrakeMinWorkers }, 1),
		count(func(c *config.Config) *int { return &c.Worker.HeartbeatStalenessMultiplier }, 3),
		count(func(c *config.Config) *int { return &c.Worker.Concurrency }, 1),
		count(func(c *config.Config) *int { return &c.Worker.Concurrency }, 2000),
		count(func(c *config.Config) *int { return &c.Retry.FreeShutdowns }, 0),
		count(func(c *config.Config) *int { return &c.Retry.FreeShutdowns }, 100),
		count(func(c *config.Config) *int { return &c.Health.DegradedThreshold }, 1),
		count(func(c *config.Config) *int { return &c.Health.QueueDepthDegraded }, 1),
		count(func(c *config.Config) *int { return &c.Health.MinSamples }, 1),
		count(func(c *config.Config) *int { return &c.Database.Connections }, 1),
		count(func(c *config.Config) *int { return &c.Database.Connections }, 1000),
		count(func(c *config.Config) *int { return &c.Database.HeartbeatConnections }, 0),
		count(func(c *config.Config) *int { return &c.Database.HeartbeatConnections }, 10),
		count(func(c *config.Config) *int { return &c.Database.APIConnections }, 6),
		count(func(c *config.Config) *int { return &c.Database.APIConnections }, 1000),
		func(c *config.Config, side int) { c.Health.UnhealthyThreshold = c.Health.DegradedThreshold + side },
		func(c *config.Config, side int) { c.Health.QueueDepthUnhealthy = c.Health.QueueDepthDegraded + side },
		func(c *config.Config, side int) { c.Retry.BaseBackoffSecs = int64(side) },
		func(c *config.Config, side int) { c.Retry.MaxBackoffSecs = c.Retry.BaseBackoffSecs + int64(side) },

		share(func(c *config.Config) *float64 { return &c.Executor.BrakeFraction }, 0),
		share(func(c *config.Config) *float64 { return &c.Executor.BrakeFraction }, 1),
		share(func(c *config.Config) *float64 { return &c.Health.FailureRateDegraded }, 0),
		share(func(c *config.Config) *float64 { return &c.Health.FailureRateUnhealthy }, 1),
		func(c *config.Config, side int) {
			c.Health.FailureRateUnhealthy = c.Health.FailureRateDegraded + float64(side)/1000
		},
		share(func(c *config.Config) *float64 { return &c.Retry.BackoffMultiplier }, 1),
		share(func(c *config.Config) *float64 { return &c.Retry.JitterFactor }, 0),
		share(func(c *config.Config) *float64 { return &c.Retry.JitterFactor }, 1),

		func(c *config.Config, side int) {
			c.Executor.Unclaimed = []config.Unclaimed{"fail", "later", ""}[side+1]
		},
		func(c *config.Config, side int) {
			c.Executor.TimeoutMonitor = []config.Mode{"observe", "off", ""}[side+1]
		},
		func(c *config.Config, side int) {
			c.Executor.HealthProbes = []config.Mode{"observe", "off", "on"}[side+1]
		},
		func(c *config.Config, side int) { c.Profile = []config.Profile{"documented", "default", ""}[side+1] },
		func(c *config.Config, side int) {
			c.MessageQueue.RabbitMQ.QueueType = []string{"classic", "stream", ""}[side+1]
		},
		func(c *config.Config, side int) {
			c.MessageQueue.RabbitMQ.DeadLetter.Exchange = []string{"x", "", "y"}[side+1]
		},
		func(c *config.Config, side int) {
			c.MessageQueue.RabbitMQ.DeadLetter.Enabled = side > 0
			c.Executor.TimeoutMonitor = []config.Mode{"observe", "act", "observe"}[side+1]
		},
	}
}

// settings asks with which configurations a daemon may start. Each is the defaults of a profile,
// with one, two or three settings moved to a bound.
func (a *asker) settings() {
	bounds := tweaks(time.Nanosecond)
	for range 12 {
		c := oracle.Defaults(pick(a, config.Hardened, config.Documented))
		for range a.number(1, 3) {
			bounds[a.number(0, len(bounds)-1)](&c, a.number(-1, 1))
		}
		a.Asked++
		refused := oracle.Unlawful(&c)
		var right, named []string
		for _, r := range refused {
			right = append(right, r.Key)
		}
		problems := a.core.Validate(c)
		for _, p := range problems {
			named = append(named, p.Key)
		}
		if !slices.Equal(sorted(named), sorted(right)) {
			a.wrong(contract, "may a daemon start with the configuration %s: the contract refuses the keys %v, the core refuses %v", unlike(&c), right, named)
			continue
		}
		for _, r := range refused {
			if !slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Key == r.Key && tells(p.Why, r.Tells) }) {
				a.wrong(contract, "the message about %s in the configuration %s: by the contract it contains %v, the core says %v", r.Key, unlike(&c), r.Tells, problems)
			}
		}
		if !slices.IsSortedFunc(named, func(a, b string) int { return slices.Index(sections, section(a)) - slices.Index(sections, section(b)) }) {
			a.wrong(contract, "the refused keys of the configuration %s must be in the order of the sections, the core names %v", unlike(&c), named)
		}
	}
}

// starts asks how a daemon answers a setting at one of its bounds on its command line: it starts if
// the setting is lawful, and otherwise refuses it by name. Reading a command line costs more than
// all other questions, so only one run in eight asks.
func (a *asker) starts() {
	if !a.oneIn(8) {
		return
	}
	bounds := tweaks(time.Millisecond)
	c := oracle.Defaults(pick(a, config.Hardened, config.Documented))
	bounds[a.number(0, len(bounds)-1)](&c, a.number(-1, 1))
	flags := []config.Flag{
		{Name: "--profile", Path: "profile", Value: string(c.Profile)},
		{Name: "--database.url", Path: "database.url", Value: "postgres://h/d"},
		{Name: "--message_queue.rabbitmq.url", Path: "message_queue.rabbitmq.url", Value: "amqp://h/"},
	}
	for _, s := range changed(&c) {
		flags = append(flags, config.Flag{Name: "--" + s.key, Path: s.key, Value: fmt.Sprint(s.inForce)})
	}
	a.Asked++
	var right []string
	for _, r := range oracle.Unlawful(&c) {
		right = append(right, r.Key)
	}
	errs := a.core.Started(flags)
	if (len(right) > 0) != (len(errs) > 0) {
		a.wrong(contract, "does a daemon start with the configuration %s: the contract refuses the keys %v, the daemon says %v", unlike(&c), right, errs)
		return
	}
	// Settings that can't be read are reported first; errors that follow from them come later.
	names := func(key string) bool {
		return slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), key) })
	}
	if len(right) > 0 && !slices.ContainsFunc(right, names) {
		a.wrong(contract, "a daemon that starts with the configuration %s must name one of the keys %v, and says %v", unlike(&c), right, errs)
	}
}

// started reads settings as a daemon does.
func started(settings []config.Flag) (errs []error) {
	_, problems := config.Load(config.Input{Flags: settings})
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("%s: %s", p.File, p.Text()))
	}
	return errs
}

// tells says whether a text contains all values, in any order.
func tells(text string, values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool { return !strings.Contains(text, fmt.Sprint(v)) })
}

// sections are the sections of the configuration in their order.
var sections = []string{"profile", "executor", "worker", "message_queue", "retry", "health", "database", "retention"} //detlint:ok a constant table, never written

func section(key string) string {
	first, _, _ := strings.Cut(key, ".")
	return first
}

func sorted(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return keys
}

// changed are the settings that differ from their profile's defaults.
func changed(c *config.Config) []differing {
	return settingsThatDiffer("", reflect.ValueOf(oracle.Defaults(c.Profile)), reflect.ValueOf(*c))
}

// unlike describes a configuration by the settings that differ from its profile's defaults.
func unlike(c *config.Config) string {
	var b strings.Builder
	for n, s := range changed(c) {
		if n > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %v", s.key, s.inForce)
	}
	return "{" + b.String() + "}"
}
