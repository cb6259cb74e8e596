package scenario

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/core/config"
)

// Lower limits of a scaled configuration: real machines can't keep shorter times. A shorter heartbeat
// interval would measure the scheduler of the operating system, and a shorter lease its hiccups. AMQP counts
// whole seconds.
const (
	LeastHeartbeat     = 500 * time.Millisecond
	LeastLease         = 2 * time.Second
	LeastAMQPHeartbeat = time.Second
)

// A worker whose dispatches are queued behind a flood of messages polls the database for them once a second,
// at any time scale. So a dispatch needs the time between two requests, and some for the answer.
const (
	LeastDispatchBehindFlood = 1500 * time.Millisecond
	// leastFlood is the number of messages above which a worker may be too slow to process them: real workers
	// store 2,000 to 10,000 a second.
	leastFlood = 1000
)

// Scaled returns the scenario with every duration of its configuration, actions, workload and
// faults multiplied by factor. It returns an error if a duration falls below its lower limit or the
// scaled configuration is invalid under profile p.
//
// Durations in whole seconds are rounded up, so the backoff of retries stays at least one second.
func (s *Scenario) Scaled(factor float64, p config.Profile) (*Scenario, error) {
	if !(factor > 0 && factor <= 1) { // also false for NaN
		return nil, fmt.Errorf("a time scale is a factor above 0 and up to 1, not %v", factor)
	}
	out := *s
	out.Profiles = []config.Profile{p}
	out.Actions = slices.Clone(s.Actions)
	for i := range out.Actions {
		// Set the default explicitly: otherwise executions would get the unscaled default.
		out.Actions[i].Timeout = out.Actions[i].RunTimeout()
	}
	out.Cluster.Workers, out.Workload, out.Faults = slices.Clone(s.Cluster.Workers), slices.Clone(s.Workload), slices.Clone(s.Faults)
	out.Cancels = slices.Clone(s.Cancels)
	for _, part := range []any{&out.Cluster, &out.Actions, &out.Workload, &out.Cancels, &out.Faults, &out.Settle} {
		scaleDurations(reflect.ValueOf(part).Elem(), factor)
	}
	c := s.configs[p]
	scaleConfig(&c, factor)
	out.configs = map[config.Profile]config.Config{p: c}
	out.expects = maps.Clone(s.expects)
	return &out, out.checkFloors(c, factor)
}

// scaleDurations multiplies every duration in a value, in any field.
func scaleDurations(v reflect.Value, factor float64) {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(time.Duration(float64(v.Int()) * factor).Round(time.Microsecond)))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			scaleDurations(v.Field(i), factor)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			scaleDurations(v.Index(i), factor)
		}
	case v.Kind() == reflect.Interface && v.Type() == reflect.TypeFor[fault.Fault]():
		// The fault's fields are shared with the original scenario; copy them before scaling.
		own := reflect.New(v.Elem().Type().Elem())
		own.Elem().Set(v.Elem().Elem())
		scaleDurations(own.Elem(), factor)
		v.Set(own)
	}
}

// scaleConfig multiplies every duration, whatever its type.
func scaleConfig(c *config.Config, factor float64) {
	root := reflect.ValueOf(c).Elem()
	for _, l := range config.Leaves() {
		field := root.FieldByIndex(l.Index)
		switch {
		case l.Type == reflect.TypeFor[time.Duration]():
			field.SetInt(int64(time.Duration(float64(field.Int()) * factor).Round(time.Microsecond)))
		case strings.HasSuffix(l.Path, "_ms"):
			field.SetInt(int64(float64(field.Int())*factor + 0.5))
		case strings.HasSuffix(l.Path, "_secs"):
			scaled := float64(field.Int()) * factor
			whole := int64(scaled)
			if float64(whole) < scaled {
				whole++
			}
			field.SetInt(whole)
		}
	}
}

// checkFloors returns an error for a configuration below the lower limits.
func (s *Scenario) checkFloors(c config.Config, factor float64) error {
	var problems []string
	needed := 0.0 // the smallest factor with every duration at or above its floor
	least := func(what string, is, floor time.Duration) {
		if is < floor {
			problems = append(problems, fmt.Sprintf("%s would be %v, under the floor of %v", what, is, floor))
			needed = max(needed, factor*float64(floor)/float64(is))
		}
	}
	least("worker.heartbeat_interval", c.Worker.HeartbeatInterval, LeastHeartbeat)
	least("the lease", c.Worker.Lease(), LeastLease)
	least("message_queue.rabbitmq.heartbeat", c.MessageQueue.RabbitMQ.Heartbeat, LeastAMQPHeartbeat)
	if slices.ContainsFunc(s.Faults, func(f Fault) bool { return fault.Flood(f.Spec) >= leastFlood }) {
		least("executor.dispatch_timeout, behind a flood of messages,", c.Executor.DispatchTimeout, LeastDispatchBehindFlood)
	}
	for _, p := range c.Validate() {
		problems = append(problems, p.Error())
	}
	if len(problems) == 0 {
		return nil
	}
	advice := ""
	// The factor is rounded up to two decimals. The small number prevents rounding errors from adding one.
	if needed = math.Ceil(needed*100-1e-6) / 100; needed > 0 && needed <= 1 {
		advice = fmt.Sprintf("; the floors need a time scale of at least %v", needed)
	}
	return fmt.Errorf("at a time scale of %v %s%s", factor, strings.Join(problems, "; "), advice)
}
