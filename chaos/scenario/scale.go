package scenario

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/core/config"
)

// The floors of a scaled configuration: what real machines can keep. A heartbeat that comes faster measures
// the scheduler of the operating system, a shorter lease its hiccups, and AMQP knows whole seconds only.
const (
	LeastHeartbeat     = 500 * time.Millisecond
	LeastLease         = 2 * time.Second
	LeastAMQPHeartbeat = time.Second
)

// Scaled is the same scenario with every duration multiplied: of its configuration, its actions, its
// workload and its faults. It refuses, for one of its profiles, what then falls under a floor or makes no
// sense any more.
//
// What is counted in whole seconds is rounded up: the backoff of retries does not fall under a second.
func (s *Scenario) Scaled(factor float64, p config.Profile) (*Scenario, error) {
	if !(factor > 0 && factor <= 1) { // not a number is none of them
		return nil, fmt.Errorf("a time scale is a factor above 0 and up to 1, not %v", factor)
	}
	out := *s
	out.Profiles = []config.Profile{p}
	out.Actions = slices.Clone(s.Actions)
	for i := range out.Actions {
		// What is left to its default is not scaled by leaving it out.
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
	return &out, floors(c, factor)
}

// scaleDurations multiplies every duration in a value, whatever it is called.
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
		// The fields of a fault are shared with the scenario that is scaled.
		own := reflect.New(v.Elem().Type().Elem())
		own.Elem().Set(v.Elem().Elem())
		scaleDurations(own.Elem(), factor)
		v.Set(own)
	}
}

// scaleConfig multiplies what is a time, whatever its type.
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

// floors refuses a configuration that real processes can't keep.
func floors(c config.Config, factor float64) error {
	var problems []string
	least := func(what string, is, floor time.Duration) {
		if is < floor {
			problems = append(problems, fmt.Sprintf("%s would be %v, under the floor of %v", what, is, floor))
		}
	}
	least("worker.heartbeat_interval", c.Worker.HeartbeatInterval, LeastHeartbeat)
	least("the lease", c.Worker.Lease(), LeastLease)
	least("message_queue.rabbitmq.heartbeat", c.MessageQueue.RabbitMQ.Heartbeat, LeastAMQPHeartbeat)
	for _, p := range c.Validate() {
		problems = append(problems, p.Error())
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("at a time scale of %v %s", factor, strings.Join(problems, "; "))
}
