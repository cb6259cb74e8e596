package live

import (
	"time"

	"handoff/chaos/netproxy"
	"handoff/chaos/scenario"
)

// injectors says how each kind of fault is brought about. What is missing here stands in the table of
// what the live world lacks.
func injectors() map[scenario.FaultKind]injectFunc {
	return map[scenario.FaultKind]injectFunc{
		scenario.Crash:            injectCrash,
		scenario.Stop:             injectStop,
		scenario.StopCutShort:     injectCutShort,
		scenario.RollingRestart:   injectRollingRestart,
		scenario.Twin:             injectTwin,
		scenario.Pause:            injectPause,
		scenario.Partition:        injectPartition,
		scenario.Latency:          injectLatency,
		scenario.SlowLink:         injectSlowLink,
		scenario.Reset:            injectReset,
		scenario.BrokerRestart:    injectBrokerDown,
		scenario.BrokerKill:       injectBrokerDown,
		scenario.BrokerAlarm:      injectAlarm,
		scenario.DeleteQueue:      injectDeleteQueue,
		scenario.BlockConsumers:   injectBlockConsumers,
		scenario.UnbindQueue:      injectUnbind,
		scenario.DropMessages:     injectMessages,
		scenario.DelayMessages:    injectMessages,
		scenario.ReorderMessages:  injectMessages,
		scenario.DuplicateMessage: injectMessages,
		scenario.CorruptMessages:  injectMessages,
		scenario.DatabaseRestart:  injectDatabaseDown,
		scenario.DatabaseKill:     injectDatabaseDown,
		scenario.DatabaseReadOnly: injectReadOnly,
		scenario.DatabaseSlow:     injectSlowDatabase,
		scenario.Serialization:    injectSerialization,
		scenario.Deaf:             injectDeaf,
		scenario.Mute:             injectMute,
		scenario.Sick:             injectSick,
		scenario.Cordon:           injectCordon,
		scenario.Drain:            injectDrain,
		scenario.PublishMessages:  injectPublish,
	}
}

// eachWay calls f for every way of every link that the fault is about.
func (x *injection) eachWay(f func(l link, way netproxy.Direction)) {
	for _, p := range x.targets {
		for _, server := range x.fault.From {
			l := p.links[server]
			if l == nil {
				continue
			}
			out, in := netproxy.Out, netproxy.In
			if server == scenario.Executors {
				out, in = in, out // there it is the worker that listens
			}
			if x.fault.Direction != scenario.Incoming {
				f(l, out)
			}
			if x.fault.Direction != scenario.Outgoing {
				f(l, in)
			}
		}
	}
}

// affect has an effect on every way while the fault lasts.
func (x *injection) affect(e netproxy.Effect) func() {
	e.Touch = x.touch
	var ends []func()
	x.eachWay(func(l link, way netproxy.Direction) { ends = append(ends, l.Begin(way, e)) })
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

func injectPartition(x *injection) (func(), error) { return x.affect(netproxy.Effect{Hold: true}), nil }

func injectLatency(x *injection) (func(), error) {
	return x.affect(netproxy.Effect{Delay: x.delay}), nil
}

func injectSlowLink(x *injection) (func(), error) {
	return x.affect(netproxy.Effect{Each: x.delay}), nil
}

func injectReset(x *injection) (func(), error) {
	return x.affect(netproxy.Effect{Break: func() bool { return x.random.chance(x.fault.PerMillion) }}), nil
}
