package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"handoff/chaos/live/capability"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/reports"
	"handoff/sim/explore"
)

func (a *app) lintCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE|DIR ...",
		Short: "Check scenario files without running them",
		Long:  "Reads scenario files and prints every mistake with its line, and whatever is\nbetter written in another way. Exit code 2 if there is a mistake.",
		Example: `  bin/chaos lint my-incident.yaml
  bin/chaos lint my-scenarios/`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("%s needs a scenario file, or a folder of them", cmd.Name())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.atOnce(cmd.Context(), func(context.Context) error { return a.lintFiles(args) })
		},
	}
}

func (a *app) lintFiles(args []string) error {
	files, bad, mistakes := 0, 0, 0
	for _, arg := range args {
		list, err := loadArgument(arg)
		refused := mistakesOf(err)
		files, bad = files+len(list)+len(refused), bad+len(refused)
		for _, n := range refused {
			mistakes += n
		}
		for _, s := range list {
			fmt.Fprintf(a.out, "%s: %s (%s, profiles %v, %s, %s)\n",
				s.File, a.out.colourVerdict("ok"), s.Name, s.Profiles, plural(len(s.Workload)+len(s.Cancels), "step"), plural(len(s.Faults), "fault"))
			fmt.Fprintf(a.out, "  live world: %s\n", liveWorld(s, capability.Unable))
			fmt.Fprintf(a.out, "  in containers: %s\n", liveWorld(s, capability.UnableInCompose))
			for _, w := range s.Warnings {
				fmt.Fprintln(a.out, reports.Printable(w.Error(), "\n\t"))
			}
		}
		if err != nil {
			// The message quotes the file.
			fmt.Fprintln(a.out, reports.Printable(err.Error(), "\n\t"))
		}
	}
	if bad > 0 {
		return usageError("%s in %d of %s", plural(mistakes, "mistake"), bad, plural(files, "file"))
	}
	return nil
}

// mistakesOf counts the mistakes of each file in an argument's error. An unreadable file or folder is one
// mistake.
func mistakesOf(err error) (counts []int) {
	var problems yamlfile.Errors
	several, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case ok:
		for _, one := range several.Unwrap() {
			counts = append(counts, mistakesOf(one)...)
		}
	case errors.As(err, &problems):
		counts = []int{len(problems)}
	default:
		counts = []int{1}
	}
	return counts
}

// liveWorld describes whether the live world can run a scenario at its default time scale. unable names what
// the world, or a part of it, can't do.
func liveWorld(s *scenario.Scenario, unable func(*scenario.Scenario, config.Profile, float64) string) string {
	var problems []string
	for _, p := range s.Profiles {
		if why := unable(s, p, defaultScale); why != "" && !slices.Contains(problems, why) {
			problems = append(problems, why)
		}
	}
	switch {
	case len(problems) > 0:
		return "not expressible: " + strings.Join(problems, "; ")
	case !slices.Contains(s.Worlds, scenario.Live):
		return "could run it, but its file says worlds: [sim]"
	}
	return "can run it"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this program was built from",
		Args:  noArgs,
		Run: func(*cobra.Command, []string) {
			fmt.Fprintf(a.out, "chaos, commit %s, %s %s/%s%s\n", reports.CommitText(explore.Commit()), runtime.Version(), runtime.GOOS, runtime.GOARCH, extent)
		},
	}
}

func plural[N int | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// firstSentence returns a description's first sentence, for lists.
func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if at := strings.Index(text, ". "); at >= 0 {
		return text[:at+1]
	}
	return text
}
