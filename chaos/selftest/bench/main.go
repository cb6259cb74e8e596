// Command bench measures the real daemons on a private PostgreSQL and RabbitMQ of this machine: how many
// executions a second go from created to orchestrated, how much processor time one takes in which process,
// and how long one takes under little load.
//
// In the same run, in turn with the daemons, it measures River, a well-maintained job queue on the same
// PostgreSQL server without a broker: one transaction takes a job, another one completes it.
//
// Rely on the processor times: rates depend on the machine's state during the run. README.md explains the
// table, and has the tables of earlier versions.
//
// With -lists N it instead compares how long scheduling takes with and without 32 clients that read lists of
// N executions: readers must not slow down the work. The criterion: with them, at 2,000,000 rows, the 99th
// percentile is at most twice that without them.
//
// With -retention N it instead measures a day of retention: each second as many of N finished executions
// leave as are created. The criterion: the retention keeps up at the highest rate, and the 99th percentile of
// a claim is at most a tenth higher than while nothing leaves.
//
// The benchmark is its own module, because River needs newer versions of the product's dependencies, and a
// module graph has one version of each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"handoff/chaos/live/cluster"
	"handoff/chaos/servers"
)

// options are the flags.
type options struct {
	bin     string
	jobs    int
	rounds  int
	samples int
	lists   int
	scale   int
	// retention is the number of finished executions in a retention measurement, and window its duration.
	retention int
	window    time.Duration
	workers   []int
	verbose   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runBench(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runBench(ctx context.Context, args []string) (err error) {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	before, err := loadAverage()
	if err != nil {
		return err
	}
	actions, err := os.MkdirTemp("", "handoff-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(actions)
	if err := os.WriteFile(actions+"/noop.yaml", []byte("name: bench.noop\nruntime: noop\n"), 0o600); err != nil {
		return err
	}
	if err := servers.EnsureInstalled(ctx, os.Stderr); err != nil {
		return err
	}
	env := map[string]string{
		"HANDOFF_WORKER_CONCURRENCY": strconv.Itoa(concurrency),
		// Writing a log line for every request is work in production, too, but there it does
		// not go to a terminal.
		"HANDOFF_LOG_LEVEL": "warn",
	}
	if o.retention > 0 {
		env["HANDOFF_RETENTION_EXECUTIONS"], env["HANDOFF_RETENTION_TRANSITIONS"] = retained.String(), retained.String()
	}
	up := func() (*cluster.Cluster, error) {
		return cluster.Up(ctx, cluster.Options{
			Bin: o.bin, Executors: 1, Workers: slices.Max(o.workers), Runtimes: "noop", Actions: actions, Env: env,
		})
	}
	c, err := up()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Down()) }()
	t := &table{options: o, load: before}
	switch {
	case o.lists > 0:
		err = measureLists(ctx, c, o, t)
	case o.scale > 0:
		var beside *cluster.Cluster
		if beside, err = up(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, beside.Down()) }()
		err = measureScale(ctx, c, beside, o, t)
	case o.retention > 0:
		err = measureRetention(ctx, c, o, t)
	default:
		err = measureWays(ctx, c, o, t)
	}
	if err != nil {
		return err
	}
	t.printTable(os.Stdout)
	return nil
}

// way is one way of working through many executions.
type way struct {
	name string
	jobs int
	// throughput works through jobs once, on empty tables.
	throughput func(ctx context.Context, jobs int) (*measurement, error)
}

// measureWays runs every way once a round, so that other work of the machine affects all of them. The first
// round warms up caches, plans and pools.
func measureWays(ctx context.Context, c *cluster.Cluster, o options, t *table) error {
	d, err := openDaemons(ctx, c, o)
	if err != nil {
		return err
	}
	defer d.close()
	r, err := openRiver(ctx, c)
	if err != nil {
		return err
	}
	defer r.close()
	var ways []way
	for _, n := range o.workers {
		ways = append(ways, d.workersWay(n))
	}
	ways = append(ways, r.riverWays(o.jobs)...)
	for round := range o.rounds + 1 {
		for _, w := range ways {
			jobs := w.jobs
			if round == 0 {
				jobs = min(jobs, 2000)
			}
			m, err := w.throughput(ctx, jobs)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if round > 0 {
				t.addMeasurement(round, m)
			}
		}
	}
	if err := d.measureLatency(ctx, t); err != nil {
		return err
	}
	return r.measureLatency(ctx, o, t)
}

// concurrency is the number of executions that a worker holds at a time. The default of 10 suits
// subprocesses. noop actions end at once, and the benchmark measures the way to the worker and back. River's
// client with the best settings works on as many at a time.
const concurrency = 1000

func parseOptions(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "../../../bin", "the folder of the binaries executor and worker")
	flags.IntVar(&o.jobs, "jobs", 20000, "executions of one measurement")
	flags.IntVar(&o.rounds, "rounds", 5, "measurements of each kind, in turn; the table shows their median")
	flags.IntVar(&o.samples, "samples", 300, "executions of a latency measurement, 20 a second")
	flags.IntVar(&o.lists, "lists", 0, "measure instead scheduling beside clients that list so many executions")
	flags.IntVar(&o.scale, "scale", 0, "measure instead tables of several sizes, the largest with so many finished executions")
	flags.IntVar(&o.retention, "retention", 0, "measure instead a day of retention in a table of so many finished executions: as many leave as come")
	flags.DurationVar(&o.window, "window", time.Minute, "how long a measurement with --retention creates executions")
	flags.BoolVar(&o.verbose, "v", false, "print every measurement as it is made")
	workers := flags.String("workers", "1,4", "numbers of worker processes")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for _, text := range strings.Split(*workers, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > 16 {
			return o, fmt.Errorf("--workers %q: must be numbers from 1 to 16, with commas", *workers)
		}
		o.workers = append(o.workers, n)
	}
	var err error
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return o, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if given["window"] && o.retention == 0 {
		return o, fmt.Errorf("--window %v: only --retention has one; leave it out, or add --retention with a number of executions", o.window)
	}
	if o.lists < 0 {
		return o, fmt.Errorf("--lists %d: 0 measures no lists, and any higher number is how many executions they have", o.lists)
	}
	if o.scale != 0 && o.scale < leastScale {
		return o, fmt.Errorf("--scale %d: at least %d, because %d finished executions are measured before; 0 measures no table sizes", o.scale, leastScale, aMillion)
	}
	if o.retention != 0 && o.retention < leastRetention {
		return o, fmt.Errorf("--retention %d: at least %d, so that some are left at the end of a window; 0 measures no retention", o.retention, leastRetention)
	}
	if o.window < leastWindow {
		return o, fmt.Errorf("--window %v: at least %v, because a retention looks every ten seconds", o.window, leastWindow)
	}
	var one []string
	for _, f := range []struct {
		flag string
		n    int
	}{{"--scale", o.scale}, {"--lists", o.lists}, {"--retention", o.retention}} {
		if f.n > 0 {
			one = append(one, fmt.Sprintf("%s %d", f.flag, f.n))
		}
	}
	if len(one) > 1 {
		return o, fmt.Errorf("%s: one run measures one of them; leave out the others", strings.Join(one, " "))
	}
	if o.jobs < 100 || o.rounds < 1 || o.samples < 10 {
		return o, fmt.Errorf("--jobs %d --rounds %d --samples %d: at least 100, 1 and 10 are needed", o.jobs, o.rounds, o.samples)
	}
	return o, nil
}

// patience bounds one measurement, so that a stuck system does not look like a slow one.
const patience = 3 * time.Minute
