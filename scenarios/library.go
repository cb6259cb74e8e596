// Package scenarios embeds the scenario library in the programs: the YAML files in the folders of this
// directory. The folder order has the scenarios that the harness was ordered for, and seed those of the
// core's source documents. The folder regressions has failures that were found once. Each other folder is
// named after the broken part. Package chaos/scenario defines their language.
package scenarios

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"handoff/chaos/scenario"
	"handoff/core/config/yamlfile"
)

//go:embed */*.yaml
var files embed.FS

const regressions = "regressions"

// readScenarios reads the files in the selected folders, in the order of their names.
func readScenarios(of func(folder string) bool) ([]*scenario.Scenario, error) {
	var list []*scenario.Scenario
	for _, file := range filePaths(of) {
		data, err := files.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the scenario library: %w", err)
		}
		s, err := scenario.Parse("scenarios/"+file, data)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// filePaths lists the files of the selected folders in the order of their names.
func filePaths(of func(folder string) bool) []string {
	all, err := fs.Glob(files, "*/*.yaml")
	if err != nil {
		return nil // only a malformed pattern fails
	}
	all = slices.DeleteFunc(all, func(file string) bool { return !of(path.Dir(file)) })
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return all
}

func isLibrary(folder string) bool { return folder != regressions }

// Library reads every scenario of the library, as embedded in the program, in the order of their names.
func Library() ([]*scenario.Scenario, error) {
	list, err := readScenarios(isLibrary)
	slices.SortFunc(list, func(a, b *scenario.Scenario) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// Regressions reads the scenarios that reproduce earlier failures, shrunk to what the failure needs. They are
// not part of the library.
func Regressions() ([]*scenario.Scenario, error) {
	return readScenarios(func(folder string) bool { return folder == regressions })
}

// Names lists the library without reading the files, because each file has its scenario's name.
func Names() []string {
	names := filePaths(isLibrary)
	for i, file := range names {
		names[i] = strings.TrimSuffix(path.Base(file), ".yaml")
	}
	slices.Sort(names)
	return names
}

// Find reads one scenario of the library.
func Find(name string) (*scenario.Scenario, error) {
	for _, file := range filePaths(isLibrary) {
		if path.Base(file) == name+".yaml" {
			data, err := files.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("reading the scenario library: %w", err)
			}
			return scenario.Parse("scenarios/"+file, data)
		}
	}
	p := yamlfile.Problem{Message: fmt.Sprintf("no scenario is called %q", name), Allowed: Names()}
	p.Nearest = yamlfile.Nearest(name, p.Allowed)
	return nil, fmt.Errorf("%s", p.Text())
}
