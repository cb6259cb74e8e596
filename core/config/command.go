package config

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"handoff/core/config/yamlfile"
)

// Command is a daemon's command line: a configuration file, flags for a few settings, and a flag that prints
// the effective configuration.
type Command struct {
	// Name is the name of the program. About describes it in one sentence.
	Name, About string
	// Flags are this daemon's flags in addition to those of every daemon.
	Flags []FlagSpec
	// Notes are paragraphs of the help about keys that are easily misunderstood; an empty line follows each.
	Notes string
}

// FlagSpec is a flag that sets a key.
type FlagSpec struct {
	// Name is the flag without dashes. Path is the key that it sets.
	Name, Path string
	// Value is the placeholder that the help shows for the value. Usage is its description.
	Value, Usage string
}

// ConfigVariable is the environment variable that names the configuration file if --config is not
// given.
const ConfigVariable = envPrefix + "CONFIG"

// Parsed is the result of reading a command line.
type Parsed struct {
	*Effective
	// Problems are all problems found. A daemon with any of them must not run.
	Problems yamlfile.Errors
	// PrintConfig reports whether the daemon should only print its configuration.
	PrintConfig bool
	// Help is the help text if it was requested, otherwise empty.
	Help string
}

// Parse reads flags, environment and file.
func (c Command) Parse(args, environ []string) Parsed {
	set := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	set.SortFlags = false
	set.SetOutput(io.Discard)
	file := set.String("config", "", "the configuration, a YAML `FILE`; "+ConfigVariable+" names it too")
	printConfig := set.Bool("print-config", false, "print the configuration in force and where each value comes from, and end")
	values := map[string]*string{}
	specs := append([]FlagSpec{{"profile", "profile", "NAME", "the set of defaults and policies: hardened or documented"}}, c.Flags...)
	for _, f := range specs {
		value := &flagValue{placeholder: f.Value}
		set.Var(value, f.Name, f.Usage)
		values[f.Name] = &value.text
	}
	err := set.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return Parsed{Help: c.helpText(set)}
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("takes no argument, and got %q", set.Arg(0))
	}
	in := Input{File: *file, Environ: environ}
	if in.File == "" {
		for _, pair := range environ {
			if value, ok := strings.CutPrefix(pair, ConfigVariable+"="); ok {
				in.File = value
			}
		}
	}
	for _, f := range specs {
		if set.Changed(f.Name) {
			in.Flags = append(in.Flags, Flag{"--" + f.Name, f.Path, *values[f.Name]})
		}
	}
	p := Parsed{PrintConfig: *printConfig}
	p.Effective, p.Problems = LoadFile(in)
	if err != nil {
		p.Problems = append(yamlfile.Errors{flagProblem(c.Name, set, err)}, p.Problems...)
	}
	return p
}

// flagValue is a flag's value, with the placeholder that the help shows and that pflag calls the type.
type flagValue struct{ text, placeholder string }

func (f *flagValue) String() string { return f.text }

func (f *flagValue) Type() string { return f.placeholder }

func (f *flagValue) Set(text string) error {
	f.text = text
	return nil
}

// flagProblem reports an unknown flag and suggests the one that was probably meant.
func flagProblem(name string, set *pflag.FlagSet, err error) yamlfile.Problem {
	p := yamlfile.Problem{File: name, Message: err.Error()}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return p
	}
	set.VisitAll(func(f *pflag.Flag) { p.Allowed = append(p.Allowed, "--"+f.Name) })
	p.Message = fmt.Sprintf("unknown flag --%s", missing.GetSpecifiedName())
	p.Nearest = yamlfile.Nearest("--"+missing.GetSpecifiedName(), p.Allowed)
	return p
}

func (c Command) helpText(set *pflag.FlagSet) string {
	return fmt.Sprintf(`%s: %s

Usage: %s [flags]

%s
Every key of the configuration can also be set by an environment variable: %s
for executor.dispatch_timeout. Flags win over the environment, the environment over
the file, the file over the defaults of the profile.

%sExit codes: 0 stopped, 1 failed or superseded, 2 bad configuration.
`, c.Name, c.About, c.Name, set.FlagUsages(), EnvName("executor.dispatch_timeout"), c.Notes)
}

// Answer writes the output that a command line requests instead of a run, or the problems that prevent a run.
// It returns the exit code, and whether the program should exit with it.
func (p Parsed) Answer(name string, stdout, stderr io.Writer) (code int, done bool) {
	if p.Help != "" {
		fmt.Fprint(stdout, p.Help)
		return 0, true
	}
	if p.PrintConfig {
		p.Print(stdout)
	}
	if n := len(p.Problems); n > 0 {
		noun := "problems"
		if n == 1 {
			noun = "problem"
		}
		fmt.Fprintf(stderr, "%s: the configuration has %d %s:\n%s\n", name, n, noun, p.Problems.Error())
		return 2, true
	}
	return 0, p.PrintConfig
}
