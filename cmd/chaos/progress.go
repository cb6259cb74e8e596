package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"handoff/chaos/selftest/mutant"
	"handoff/sim/explore"
)

// progressInterval is the interval of progress lines in a pipe: short enough to follow a CI log, and long
// enough to keep the log readable.
const progressInterval = 5 * time.Second

// progress shows the progress of a sweep: one changing line on a terminal, plain lines elsewhere, nothing
// with --quiet.
type progress struct {
	out         *terminal
	bars        *mpb.Progress
	bar         *mpb.Bar
	at          atomic.Pointer[explore.Progress]
	lastPrinted time.Duration
	quiet       bool
	// mutant is planted into every run; nil for none.
	mutant *mutant.Mutant
}

func newProgress(out *terminal, total int, quiet bool) *progress {
	p := &progress{out: out, quiet: quiet}
	p.at.Store(&explore.Progress{Total: total})
	if quiet || !out.live {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(out.Writer), mpb.WithWidth(24), mpb.WithRefreshRate(120*time.Millisecond))
	p.bar = p.bars.AddBar(int64(total), mpb.BarRemoveOnComplete(), mpb.BarFillerTrim(),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + progressLine(*p.at.Load()) })))
	return p
}

// showProgress implements explore.Options.Progress.
func (p *progress) showProgress(at explore.Progress) {
	if p.quiet {
		return
	}
	p.at.Store(&at)
	if at.Failed != nil {
		// Print each failure at once, so that a reader can begin with the first one during the sweep. The
		// result names the smallest seed, which may be another one.
		said := fmt.Sprintf("%s in seed %d, the first to end: %s", at.Failed, at.Seed, at.Broken)
		again := at.Failed.Reproduce(at.Seed, p.mutant)
		p.printLine(p.out.red("FAIL") + " " + said + "; reproduce: " + again)
	}
	if p.bar != nil {
		p.bar.SetCurrent(int64(at.Done))
		return
	}
	if at.Elapsed-p.lastPrinted >= progressInterval {
		p.lastPrinted = at.Elapsed
		p.printLine(progressLine(at))
	}
}

// printLine prints a permanent line.
func (p *progress) printLine(text string) {
	if p.bars != nil {
		_, _ = p.bars.Write([]byte(text + "\n"))
		return
	}
	fmt.Fprintln(p.out, text)
}

// close clears the changing line.
func (p *progress) close() {
	if p.bars != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}

func progressLine(p explore.Progress) string {
	line := fmt.Sprintf("%d of %d runs, %.0f/s, %s of virtual time, %d failing", p.Done, p.Total, p.Rate(), humanDuration(p.Virtual), p.Failing)
	if p.Done > 0 && p.Done < p.Total {
		line += fmt.Sprintf(", %s left", humanDuration(p.Left()))
	}
	return line
}

// humanDuration formats a duration with two units.
func humanDuration(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}
