package fault

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"handoff/core/config/yamlfile"
)

// Dice provides random choices and the cluster's names to the Draw function of a kind. The result
// depends on the choices alone.
type Dice struct {
	// Choose returns a number from 0 to n-1; n is at least 1.
	Choose func(n int) int
	// Cluster holds the processes that may be named.
	Cluster Cluster
}

// Of draws one item of a list; all are equally likely.
func (d *Dice) Of(list ...string) string { return list[d.Choose(len(list))] }

// Number draws a whole number between two bounds, inclusive.
func (d *Dice) Number(least, most int) int { return least + d.Choose(most-least+1) }

// Percent draws a percentage between two bounds, inclusive.
func (d *Dice) Percent(least, most int) string { return fmt.Sprintf("%d%%", d.Number(least, most)) }

// Within draws a duration of whole milliseconds between two bounds, inclusive. Every doubling is equally
// likely: 20 ms to 40 ms as often as 20 min to 40 min. It uses integer arithmetic, so every machine draws the
// same.
func (d *Dice) Within(least, most time.Duration) time.Duration {
	from, to := least.Milliseconds(), most.Milliseconds()
	if from >= to {
		return least
	}
	lowest := bits.Len64(uint64(from))
	octave := lowest + d.Choose(bits.Len64(uint64(to))-lowest+1)
	low, high := int64(0), int64(0)
	if octave > 0 {
		low, high = int64(1)<<(octave-1), int64(1)<<octave-1
	}
	low, high = max(low, from), min(high, to)
	return time.Duration(low+int64(d.Choose(int(high-low+1)))) * time.Millisecond
}

// Lasting draws a duration and formats it as in a scenario file.
func (d *Dice) Lasting(least, most time.Duration) string {
	return yamlfile.Short(d.Within(least, most))
}

// Span draws the least and the greatest value of a Span.
func (d *Dice) Span(least, most time.Duration) string {
	a, b := d.Within(least, most), d.Within(least, most)
	return fmt.Sprintf("[%s, %s]", yamlfile.Short(min(a, b)), yamlfile.Short(max(a, b)))
}

// Shift draws how far a clock is moved, forwards or backwards.
func (d *Dice) Shift(most time.Duration) string {
	return d.Of("", "-") + d.Lasting(time.Second, most)
}

// Process draws a process or a selector of processes.
func (d *Dice) Process() string { return d.Of(d.Cluster.Processes()...) }

// Worker draws a worker or a selector of workers. For a cluster without workers it draws AnyWorker,
// and the loader then refuses the entry.
func (d *Dice) Worker() string { return d.Of(append(d.Cluster.WorkerTargets(), AnyWorker)...) }

// OneWorker draws a worker, or AnyWorker.
func (d *Dice) OneWorker() string { return d.Of(append(slices.Clone(d.Cluster.Workers), AnyWorker)...) }

// Queue draws a queue of the executors, or workers for their own queues.
func (d *Dice) Queue() string { return d.Of(append(ExecutorQueues(), d.Cluster.WorkerTargets()...)...) }

// Link draws the keys that all faults on links have. process is the key of the process, ends the key of the
// other ends.
func (d *Dice) Link(process, ends string) string {
	return fmt.Sprintf("%s: %s, %s: [%s]", process, d.Process(), ends, d.Of(Broker, Database, strings.Join([]string{Broker, Database}, ", ")))
}

// Way draws a direction, as an additional key. Half of the time it is empty, which means both ways.
func (d *Dice) Way() string {
	return d.Of("", "", ", direction: "+string(Incoming), ", direction: "+string(Outgoing))
}

// Messages draws the type and the share of the messages that a fault strikes. key is the kind's name below
// `messages`, and own are its own keys.
func (d *Dice) Messages(key, own string) string {
	types := append(MessageTypes(), EveryMessage, EveryMessage)
	return fmt.Sprintf("messages: {%s: %q%s, rate: %s}", key, d.Of(types...), own, d.Percent(5, 100))
}
