//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"handoff/chaos/servers"
)

// The exit codes besides 0 and 1.
const (
	exitUsage       = 2
	exitEnvironment = 4
)

func main() {
	// The attack on secrets has an action that runs this program, too.
	if len(os.Args) > 1 && os.Args[1] == probeArgument {
		os.Exit(probe(os.Args[2:], os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "attacks to try, by their `IDs` with commas, such as S5,S12; all if left out")
	bin := flags.String("bin", "bin", "the `DIR` of the binaries executor, worker and chaos that are attacked")
	file := flags.String("json", "", "a `FILE` for the results")
	list := flags.Bool("list", false, "list the attacks and try none")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	chosen, err := choose(attacks, *only)
	if err != nil {
		fmt.Fprintln(stderr, "attack:", err)
		return exitUsage
	}
	if *list {
		for _, a := range chosen {
			fmt.Fprintf(stdout, "%-4s %-58s at most %v\n     %s\n", a.id, a.title, a.within, a.tried)
		}
		return 0
	}
	if err := servers.EnsureInstalled(ctx, stderr); err != nil {
		fmt.Fprintln(stderr, "attack:", err)
		return exitEnvironment
	}
	l, err := openLab(*bin, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "attack:", err)
		return exitEnvironment
	}
	results := tryAll(ctx, l, chosen, stdout)
	if err := l.close(); err != nil {
		fmt.Fprintln(stderr, "attack: cleaning up:", err)
	}
	writeSummary(stdout, results)
	if *file != "" {
		if err := writeJSON(*file, results); err != nil {
			fmt.Fprintln(stderr, "attack:", err)
			return exitEnvironment
		}
	}
	return exitCode(results)
}

// choose picks the requested attacks, in the order of the table.
func choose(all []attack, only string) ([]attack, error) {
	if only == "" {
		return all, nil
	}
	wanted := map[string]bool{}
	for _, id := range strings.Split(only, ",") {
		wanted[strings.ToUpper(strings.TrimSpace(id))] = true
	}
	var chosen []attack
	for _, a := range all {
		if wanted[a.id] {
			chosen = append(chosen, a)
			delete(wanted, a.id)
		}
	}
	for id := range wanted {
		return nil, fmt.Errorf("--only: there is no attack %q; --list names those that there are", id)
	}
	return chosen, nil
}

// tryAll runs one attack after the other, and beside them those that mostly wait. It prints each
// result when it is ready, and returns all in the order of the table.
func tryAll(ctx context.Context, l *lab, chosen []attack, out io.Writer) []*result {
	ctx, cancel := context.WithTimeout(ctx, wholeRun)
	defer cancel()
	results := make([]*result, len(chosen))
	var printing sync.Mutex
	one := func(i int) {
		r := chosen[i].run(ctx, l)
		results[i] = r
		printing.Lock()
		r.write(out)
		printing.Unlock()
	}
	var aside sync.WaitGroup
	for i := range chosen {
		if chosen[i].aside {
			aside.Go(func() { one(i) })
		}
	}
	for i := range chosen {
		if !chosen[i].aside {
			one(i)
		}
	}
	aside.Wait()
	return results
}

// run runs one attack within its time limit.
func (a *attack) run(ctx context.Context, l *lab) *result {
	r := &result{ID: a.id, Title: a.title, Tried: a.tried}
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, a.within)
	defer cancel()
	err := a.try(within, l, r)
	r.Seconds = time.Since(began).Seconds()
	switch {
	case ctx.Err() != nil:
		r.cannot("stopped: %v", ctx.Err())
	case errors.Is(within.Err(), context.DeadlineExceeded):
		r.expect("ended within its bound", "no: "+firstLine(err), a.within.String(), false)
	case err != nil:
		r.cannot("%s", firstLine(err))
	}
	r.judge()
	return r
}

// firstLine is an error without the end of a log that may follow its text.
func firstLine(err error) string {
	first, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return first
}
