// Command bench measures the real daemons on a private PostgreSQL and RabbitMQ of this machine: how many
// executions a second go from created to orchestrated, and how long one takes while there is little to do.
//
// Two rows beside them say what the figures are worth. The replay sends the same statements and messages
// through the same adapters, with nothing that decides in between: what the daemons stay below it is their
// own cost. River is a well-kept job queue on the same PostgreSQL, without a broker: one transaction takes a
// job, another one completes it.
//
// With -only lists it compares instead how long scheduling takes with and without 32 clients that read lists of
// -rows executions: a reader must not slow down the work. The criterion is a 99th percentile within twice of what it is
// without them, at 2 million rows.
//
// It is a module of its own, because River brings newer versions of what the product links, and a module
// graph has one version of each.
package main

import (
	"context"
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
	repeat  int
	samples int
	rows    int
	workers []int
	only    string
	verbose bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	t := newTable()
	for _, part := range []struct {
		name    string
		measure func(context.Context, *cluster.Cluster, options, *table) error
	}{{"daemons", measureDaemons}, {"replay", measureReplay}, {"river", measureRiver}, {"lists", measureLists}} {
		if o.only != "" && o.only != part.name || o.only == "" && part.name == "lists" {
			continue
		}
		if err := measure(ctx, o, t, part.measure); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	t.print(os.Stdout, o)
	return nil
}

// measure gives each part servers that nothing has run on before: old versions of rows and a grown broker
// would be charged to whoever comes later.
func measure(ctx context.Context, o options, t *table, part func(context.Context, *cluster.Cluster, options, *table) error) (err error) {
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
	c, err := cluster.Up(ctx, cluster.Options{
		Bin: o.bin, Executors: 1, Workers: slices.Max(o.workers), Runtimes: "noop", Actions: actions,
		Env: map[string]string{
			"HANDOFF_WORKER_CONCURRENCY": strconv.Itoa(concurrency),
			// A line for every request is work that a production system pays for too, but not to a terminal.
			"HANDOFF_LOG_LEVEL": "warn",
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		if down := c.Down(); err == nil {
			err = down
		}
	}()
	return part(ctx, c, o, t)
}

// concurrency is how many executions a worker holds at a time. The default of 10 suits subprocesses; noop
// actions end at once, and what is measured is the way there and back.
const concurrency = 500

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "../../bin", "the folder of the binaries executor and worker")
	flags.IntVar(&o.jobs, "jobs", 20000, "executions of one measurement")
	flags.IntVar(&o.repeat, "repeat", 3, "measurements of each kind; the table shows their median, lowest and highest")
	flags.IntVar(&o.samples, "samples", 300, "executions of a latency measurement, 20 a second")
	flags.StringVar(&o.only, "only", "", "measure one of daemons, replay, river, lists; lists only if it is named")
	flags.IntVar(&o.rows, "rows", 200000, "executions that lists are made of")
	flags.BoolVar(&o.verbose, "v", false, "print every measurement as it is made")
	workers := flags.String("workers", "1,2,4", "numbers of worker processes")
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
	if o.jobs < 100 || o.repeat < 1 || o.samples < 10 {
		return o, fmt.Errorf("--jobs must be at least 100, --repeat 1, --samples 10")
	}
	return o, nil
}

// patience bounds one measurement: a system that is stuck shall not look like one that is slow.
const patience = 3 * time.Minute
