// Package scenarios is the scenario library, embedded in the programs: the YAML files of this
// folder, and those of regressions, which are failures that were once found. Package chaos/scenario
// defines their language.
package scenarios

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"handoff/chaos/scenario"
	"handoff/core/config/yamlfile"
)

//go:embed *.yaml
var library embed.FS

// Library reads every scenario of this folder, as embedded in the program, in the order of their
// names.
func Library() ([]*scenario.Scenario, error) {
	files, err := fs.Glob(library, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the scenario library: %w", err)
	}
	var list []*scenario.Scenario
	for _, file := range files {
		data, err := library.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the scenario library: %w", err)
		}
		s, err := scenario.Parse("scenarios/"+file, data)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *scenario.Scenario) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

//go:embed regressions/*.yaml
var regressions embed.FS

// Regressions reads failures that were found once, shrunk, and kept. They are not part of the
// library.
func Regressions() ([]*scenario.Scenario, error) {
	files, err := fs.Glob(regressions, "regressions/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the regressions: %w", err)
	}
	var list []*scenario.Scenario
	for _, file := range files {
		data, err := regressions.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the regressions: %w", err)
		}
		s, err := scenario.Parse("scenarios/"+file, data)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// Names lists the library without reading it: a file has the name of its scenario.
func Names() []string {
	files, err := fs.Glob(library, "*.yaml")
	if err != nil {
		return nil // only a malformed pattern fails
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(file, ".yaml")
	}
	slices.Sort(names)
	return names
}

// Find reads one scenario of the library.
func Find(name string) (*scenario.Scenario, error) {
	data, err := library.ReadFile(name + ".yaml")
	if err != nil {
		p := yamlfile.Problem{Message: fmt.Sprintf("no scenario is called %q", name), Allowed: Names()}
		p.Nearest = yamlfile.Nearest(name, p.Allowed)
		return nil, fmt.Errorf("%s", p.Text())
	}
	return scenario.Parse("scenarios/"+name+".yaml", data)
}
