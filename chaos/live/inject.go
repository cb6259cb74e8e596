package live

import (
	"time"

	"handoff/chaos/live/wire"
	"handoff/scenarios"
)

// injectors says how each kind of fault is brought about. What is missing here stands in the table of
// what the live world lacks.
func injectors() map[scenarios.FaultKind]injectFunc {
	return map[scenarios.FaultKind]injectFunc{
		scenarios.Crash:            injectCrash,
		scenarios.Stop:             injectStop,
		scenarios.StopCutShort:     injectCutShort,
		scenarios.RollingRestart:   injectRollingRestart,
		scenarios.Twin:             injectTwin,
		scenarios.Pause:            injectPause,
		scenarios.Partition:        injectPartition,
		scenarios.Latency:          injectLatency,
		scenarios.SlowLink:         injectSlowLink,
		scenarios.Reset:            injectReset,
		scenarios.BrokerRestart:    injectBrokerDown,
		scenarios.BrokerKill:       injectBrokerDown,
		scenarios.BrokerAlarm:      injectAlarm,
		scenarios.DeleteQueue:      injectDeleteQueue,
		scenarios.BlockConsumers:   injectBlockConsumers,
		scenarios.UnbindQueue:      injectUnbind,
		scenarios.DropMessages:     injectMessages,
		scenarios.DelayMessages:    injectMessages,
		scenarios.ReorderMessages:  injectMessages,
		scenarios.DuplicateMessage: injectMessages,
		scenarios.CorruptMessages:  injectMessages,
		scenarios.DatabaseRestart:  injectDatabaseDown,
		scenarios.DatabaseKill:     injectDatabaseDown,
		scenarios.DatabaseReadOnly: injectReadOnly,
		scenarios.DatabaseSlow:     injectSlowDatabase,
		scenarios.Serialization:    injectSerialization,
		scenarios.Deaf:             injectDeaf,
		scenarios.Mute:             injectMute,
		scenarios.Sick:             injectSick,
		scenarios.Cordon:           injectCordon,
		scenarios.Drain:            injectDrain,
		scenarios.PublishMessages:  injectPublish,
	}
}

// eachWay calls f for every way of every link that the fault is about.
func (x *injection) eachWay(f func(l link, way wire.Direction)) {
	for _, p := range x.targets {
		for _, server := range x.fault.From {
			l := p.links[server]
			if l == nil {
				continue
			}
			out, in := wire.Out, wire.In
			if server == scenarios.Executors {
				out, in = in, out // there it is the worker that listens
			}
			if x.fault.Direction != scenarios.Incoming {
				f(l, out)
			}
			if x.fault.Direction != scenarios.Outgoing {
				f(l, in)
			}
		}
	}
}

// affect has an effect on every way while the fault lasts.
func (x *injection) affect(e wire.Effect) func() {
	e.Touch = x.touch
	var ends []func()
	x.eachWay(func(l link, way wire.Direction) { ends = append(ends, l.Begin(way, e)) })
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// delay draws what the fault adds to one thing that passes.
func (x *injection) delay() time.Duration {
	return x.random.Duration(x.fault.DelayMin, x.fault.DelayMax)
}

func injectPartition(x *injection) (func(), error) { return x.affect(wire.Effect{Hold: true}), nil }

func injectLatency(x *injection) (func(), error) { return x.affect(wire.Effect{Delay: x.delay}), nil }

func injectSlowLink(x *injection) (func(), error) { return x.affect(wire.Effect{Each: x.delay}), nil }

func injectReset(x *injection) (func(), error) {
	return x.affect(wire.Effect{Break: func() bool { return x.random.chance(x.fault.PerMillion) }}), nil
}
