package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"handoff/chaos/scenario"
	"handoff/scenarios"
)

// template is a scenario that passes lint and runs, with explanations in its comments.
//
//go:embed new.yaml
var template string

var scenarioForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`) //nolint:gochecknoglobals // a constant form

func (a *app) newCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "new NAME",
		Short:   "Write NAME.yaml: a scenario with comments, which runs as it stands",
		Example: `  bin/chaos new my-incident && bin/chaos run my-incident.yaml`,
		Args:    needsOne("name"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := strings.TrimSuffix(args[0], ".yaml")
			if !scenarioForm.MatchString(name) {
				return usageError("%q is no name of a scenario: use small letters and digits, with hyphens between them", name)
			}
			if slices.Contains(scenarios.Names(), name) {
				return usageError("the library has a scenario %q already; choose another name", name)
			}
			return a.writeTemplate(name)
		},
	}
}

// writeTemplate writes the file, but never overwrites an existing one.
func (a *app) writeTemplate(name string) error {
	path := name + ".yaml"
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return usageError("%s can't be written: %s; choose another name or folder, or remove the file", path, errors.Unwrap(err))
	}
	_, err = file.WriteString(scenario.SchemaLine(path) + strings.Replace(template, "name: NAME", "name: "+name, 1))
	if err := cmp.Or(err, file.Close()); err != nil {
		return harnessError("%s can't be written: %s", path, fileErrorText(err))
	}
	fmt.Fprintf(a.out, "%s is written. Next:\n  bin/chaos lint %s\n  bin/chaos run %s\n", path, path, path)
	return nil
}
