// Command chaos runs scenarios against a simulated or a real cluster, shows what happened in one run, and
// tests its own judges with mutants.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"handoff/chaos/verdict"
	"handoff/core/config/yamlfile"
	"handoff/reports"
	"handoff/sim/explore"
)

func main() { os.Exit(runProgram()) }

// runProgram runs the program with the signal handlers and the settings of a process.
func runProgram() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first Ctrl-C ends the sweep, which writes its report. The second one ends the program.
	context.AfterFunc(ctx, stop)
	// A sweep makes short-lived worlds of a few megabytes each. With Go's default, which collects at twice
	// the live heap, it spends a sixth of its time on garbage collection. 400 takes 5 % longer than 800, and
	// 1,600 gains nothing more.
	debug.SetGCPercent(800)
	// Nobody needs memory profiles of this process, and sampling for them takes 1 % of a sweep's time.
	runtime.MemProfileRate = 0
	return runArgs(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// runArgs runs the command line and returns the exit code.
func runArgs(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{out: newTerminal(stdout), err: newTerminal(stderr)}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// Cobra's help function can't return an error.
	var refused error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, given []string) {
		if refused = unknownCommand(cmd); refused == nil {
			help(cmd, given)
		}
	})
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = refused
	}
	if err == nil {
		return a.code
	}
	var f *failure
	if !errors.As(err, &f) {
		// Errors of cobra itself are usage errors.
		f = &failure{code: verdict.ExitUsage, text: err.Error()}
	}
	// The text may quote a file, so it is made printable.
	fmt.Fprintln(stderr, a.err.red("chaos: ")+reports.Printable(f.text, "\n\t"))
	return f.code
}

// app is the state that all commands share.
type app struct {
	out, err *terminal
	// code is the program's exit code after a command that returned no error.
	code int
}

// failure is an error with an exit code.
type failure struct {
	code int
	text string
}

// Error implements error.
func (f *failure) Error() string { return f.text }

// usageError returns an error for an invalid request.
func usageError(format string, args ...any) error {
	return &failure{verdict.ExitUsage, fmt.Sprintf(format, args...)}
}

// harnessError returns an error for a failure of the harness itself.
func harnessError(format string, args ...any) error {
	return &failure{verdict.ExitBroken, fmt.Sprintf(format, args...)}
}

// reportHang prints the goroutine stacks if a run hung. It returns any simulator error as a harness error.
func (a *app) reportHang(err error) error {
	var hung *explore.Hung
	if errors.As(err, &hung) {
		_, _ = a.err.Write(hung.Stacks)
	}
	return harnessError("%v", err)
}

// unknownNameError returns an error for a name that is not in a list.
func unknownNameError(what, got string, allowed []string) error {
	return usageError("%s", unknownText(what, got, allowed))
}

func unknownText(what, got string, allowed []string) string {
	text := fmt.Sprintf("no %s is called %q", what, got)
	if near := likelyName(got, allowed); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	if len(allowed) == 0 {
		return text + "; there is none"
	}
	return text + "\nallowed: " + shownNames(got, allowed, listingCommand(what))
}

// listingCommand returns the command that lists all names of a kind.
func listingCommand(what string) string {
	if what == "mutant" {
		return "chaos list --mutants"
	}
	return "chaos list"
}

// mostShown is the maximum number of names that a message lists.
const mostShown = 30

// shownNames lists the allowed names. If there are many, it lists only those that share a word with the given
// name. It then adds the number of others and the command that lists all.
func shownNames(got string, allowed []string, command string) string {
	if len(allowed) <= mostShown {
		return strings.Join(allowed, ", ")
	}
	var like []string
	for _, name := range allowed {
		for word := range strings.FieldsFuncSeq(strings.ToLower(got), func(r rune) bool { return r == '-' || r == '_' || r == ' ' }) {
			if len(word) > 2 && strings.Contains(name, word) {
				like = append(like, name)
				break
			}
		}
	}
	like = like[:min(len(like), mostShown)]
	if len(like) == 0 {
		return fmt.Sprintf("%d names; %s shows them", len(allowed), command)
	}
	return fmt.Sprintf("%s, and %d others; %s shows them", strings.Join(like, ", "), len(allowed)-len(like), command)
}

// likelyName returns the allowed name of which got is probably a misspelling or an abbreviation.
func likelyName(got string, allowed []string) string {
	if near := yamlfile.Nearest(got, allowed); near != "" || got == "" {
		return near
	}
	for _, name := range allowed {
		if strings.Contains(name, strings.ToLower(got)) {
			return name
		}
	}
	return ""
}

// Descriptions of the commands that the simulator-only program (simulator.go) lists without having them.
const (
	upShort      = "Real PostgreSQL, RabbitMQ, executor and workers on this machine, until Ctrl-C"
	injectShort  = "Break a running system by hand"
	soakShort    = "Run real daemons at the highest rate that the machine holds while every part is killed, paused and cut off"
	serversShort = "Find PostgreSQL and RabbitMQ for tests, or install them (Debian, as root)"
)

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "chaos",
		Short: "Break a simulated cluster of executors and workers, and judge what it does",
		Long: `chaos runs scenarios in which processes, networks, brokers, databases and clocks
misbehave, and judges every run by invariants. A run is a function of scenario,
profile and seed: what failed once fails again.

Exit codes: 0 pass, 1 fail, 2 bad usage or a bad scenario, 3 inconclusive,
4 the harness hung, its environment did not come up, or its report was not written.` + extentHelp,
		Example: `  bin/chaos run                              the whole library, 60 seeds each
  bin/chaos run ttl-race --seed 7            one seed of one scenario
  bin/chaos replay ttl-race --seed 7         what happened in it, event by event
  bin/chaos mutants                          does the suite find what is planted?`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownNameError("command", args[0], commandNames(cmd))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(a.runCommand(), a.replayCommand(), a.diffCommand(), a.whyCommand(), a.exportCommand(), a.mutantsCommand(), a.listCommand(), a.lintCommand(), a.upCommand(), a.injectCommand(), a.checkCommand(), a.newCommand(), a.shrinkCommand(), a.mergeCommand(), a.serversCommand(), a.versionCommand(), a.soakCommand())
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(takeOnce)
	}
	return root
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// helpCommand returns a help command like cobra's, but its command fails for an unknown topic.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownNameError("command", strings.Join(args, " "), commandNames(cmd.Root()))
			}
			return about.Help()
		},
	}
}

// unknownCommand refuses an unknown word that comes before a flag of the root command.
func unknownCommand(cmd *cobra.Command) error {
	words := cmd.Flags().Args()
	if cmd.HasParent() || len(words) == 0 {
		return nil
	}
	return unknownNameError("command", words[0], commandNames(cmd))
}

// flagError refuses an unknown flag and suggests a similar one, or refuses the value of a flag.
func flagError(cmd *cobra.Command, err error) error {
	var twice *givenTwiceError
	if errors.As(err, &twice) {
		return usageError("%s: %v", cmd.Name(), twice)
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		what := map[string]string{
			"int": "a whole number", "int64": "a whole number", "uint64": "a whole number that is not negative", "float64": "a number",
			"duration": "a time with its unit, as in 90s, 30m or 2h,", "bool": "true, false or nothing",
		}[invalid.GetFlag().Value.Type()]
		if what != "" {
			return usageError("%s: --%s %s: %s is needed", cmd.Name(), invalid.GetFlag().Name, invalid.GetValue(), what)
		}
	}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return usageError("%s: %v; see %s --help", cmd.Name(), err, cmd.CommandPath())
	}
	if err := unknownCommand(cmd); err != nil {
		return err // the flag itself is not the mistake
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	slices.Sort(known)
	got := "--" + missing.GetSpecifiedName()
	if missing.GetSpecifiedShortnames() != "" {
		got = "-" + missing.GetSpecifiedName()
	}
	return usageError("%s: %s", cmd.Name(), unknownText("flag", got, known))
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("%s takes no argument, and got %q; %s --help shows its flags", cmd.Name(), args[0], cmd.CommandPath())
	}
	return nil
}

// needsOne refuses any number of arguments other than one, and shows an example.
func needsOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
			return usageError("%s needs one %s, and got %d, as in: %s", cmd.Name(), what, len(args), example)
		}
		return nil
	}
}
