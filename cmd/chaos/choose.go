package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/scenarios"
	"handoff/sim/explore"
)

// loadScenarios reads the scenarios that the arguments name: library scenarios, files, or folders of files.
// It reads all of them before refusing any, so that it reports every mistake.
func loadScenarios(args []string) ([]*scenario.Scenario, error) {
	var list []*scenario.Scenario
	var problems []string
	seen := make(map[string]*scenario.Scenario)
	for _, arg := range args {
		found, err := loadArgument(arg)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, s := range found {
			other := seen[s.Name]
			if other == nil {
				seen[s.Name] = s
				list = append(list, s)
			} else if other.Digest != s.Digest {
				problems = append(problems, fmt.Sprintf("%s and %s are both called %q; results are told apart by the name", other.File, s.File, s.Name))
			}
		}
	}
	if len(problems) > 0 {
		return nil, usageError("%s", strings.Join(problems, "\n"))
	}
	return list, nil
}

// loadArgument reads the scenarios of one argument. A name of the library is never taken for a file, even if
// a folder of that name exists.
func loadArgument(arg string) ([]*scenario.Scenario, error) {
	if slices.Contains(scenarios.Names(), arg) {
		s, err := scenarios.Find(arg)
		return singleList(s), err
	}
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return loadFolder(arg)
	case err == nil:
		s, err := scenario.LoadFile(arg)
		return singleList(s), err
	case fileMeant(arg) != "":
		return nil, fmt.Errorf("no scenario is called %q; did you mean the file %s?", arg, fileMeant(arg))
	case strings.ContainsRune(arg, filepath.Separator) || isYAML(arg):
		return nil, fmt.Errorf("no such scenario file: %s; name one that is there, or a scenario of the library (chaos list), or write one: chaos new NAME", fileErrorText(err))
	default:
		return nil, errors.New(unknownText("scenario", arg, scenarios.Names()) + "\nor the path of a scenario file or of a folder of them")
	}
}

// fileMeant returns the scenario file whose name without extension is arg; empty if there is none.
func fileMeant(arg string) string {
	for _, file := range []string{arg + ".yaml", arg + ".yml"} {
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			return file
		}
	}
	return ""
}

// loadFolder reads the scenarios of a folder and its subfolders.
func loadFolder(folder string) ([]*scenario.Scenario, error) {
	var list []*scenario.Scenario
	var problems []error
	files := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isYAML(path) {
			return err
		}
		files++
		s, err := scenario.LoadFile(path)
		if err != nil {
			problems = append(problems, err)
		}
		list = append(list, singleList(s)...)
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading a folder of scenarios: %w", err)
	case files == 0:
		return nil, fmt.Errorf("no scenario in %s: a scenario file is called *.yaml, and chaos new NAME writes one", folder)
	}
	return list, errors.Join(problems...)
}

func singleList(s *scenario.Scenario) []*scenario.Scenario {
	if s == nil {
		return nil
	}
	return []*scenario.Scenario{s}
}

func isYAML(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// makeFolder makes the folder that a flag names, and checks that files can be written there, because runs may
// take hours and their report is written last.
func makeFolder(flag, path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return usageError("%s: making the folder: %s; name a folder that can be written", flag, fileErrorText(err))
	}
	probe, err := os.CreateTemp(path, ".chaos-*")
	if err != nil {
		return usageError("%s: no file can be written into the folder %s: %s; name another folder", flag, path, errors.Unwrap(err))
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	return nil
}

// makeFileFolder makes the folder for the file that a flag names, if the flag names one.
func makeFileFolder(flag, file string) error {
	if file == "" || file == standardOutput {
		return nil
	}
	if err := makeFolder(flag, filepath.Dir(file)); err != nil {
		return err
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return usageError("%s %s: this is a folder; name a file", flag, file)
	}
	return nil
}

// fileErrorText returns the text of a file system error without the name of the system call.
func fileErrorText(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Path + ": " + p.Err.Error()
	}
	return err.Error()
}

// chooseTargets returns the targets of a command: the named scenarios, or else the library, under the given
// profile or, without one, under each of their profiles. notes lists the omitted scenarios of the library.
func chooseTargets(args []string, profile string, world scenario.World) (targets []explore.Target, notes []string, err error) {
	named := len(args) > 0
	var list []*scenario.Scenario
	if named {
		list, err = loadScenarios(args)
	} else {
		list, err = scenarios.Library()
	}
	if err != nil {
		return nil, nil, asUsage(err)
	}
	if err := checkProfile(profile); err != nil {
		return nil, nil, err
	}
	leaveOut := func(format string, args ...any) error {
		if named {
			return usageError(format, args...)
		}
		notes = append(notes, "left out: "+fmt.Sprintf(format, args...))
		return nil
	}
	for _, s := range list {
		if !slices.Contains(s.Worlds, world) {
			if why := lackingFaults(s, world); why != "" {
				if named {
					return nil, nil, usageError("%s is not expressible in the %s world: %s", s.Name, worldName(world), why)
				}
				notes = append(notes, fmt.Sprintf("not expressible: %s: %s", s.Name, why))
				continue
			}
			if err := leaveOut("%s does not run in the %s world; its file says worlds: %v", s.Name, worldName(world), s.Worlds); err != nil {
				return nil, nil, err
			}
			continue
		}
		if profile != "" && !slices.Contains(s.Profiles, config.Profile(profile)) {
			if err := leaveOut("%s does not run under the profile %s; its file says profile: %v", s.Name, profile, s.Profiles); err != nil {
				return nil, nil, err
			}
			continue
		}
		for _, t := range explore.Targets(singleList(s)) {
			if profile == "" || string(t.Profile) == profile {
				targets = append(targets, t)
			}
		}
	}
	if len(targets) == 0 {
		return nil, nil, usageError("nothing is left to run\n%s", strings.Join(notes, "\n"))
	}
	return targets, notes, nil
}

// lackingFaults lists the scenario's faults that a world can't inject; empty for none.
func lackingFaults(s *scenario.Scenario, w scenario.World) string {
	var all []string
	for i := range s.Faults {
		k := s.Faults[i].Kind
		if why := scenario.Lacks(k, w); why != "" {
			if text := fmt.Sprintf("it has no %s: %s", k.Name, why); !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return strings.Join(all, "; ")
}

func worldName(w scenario.World) string {
	if w == scenario.Live {
		return "live"
	}
	return "simulated"
}

// asUsage turns an error about the user's input into a usage error.
func asUsage(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return err
	}
	return usageError("%v", err)
}

func checkProfile(name string) error {
	var allowed []string
	for _, p := range config.Profiles() {
		allowed = append(allowed, string(p))
	}
	if name == "" || slices.Contains(allowed, name) {
		return nil
	}
	return unknownNameError("profile", name, allowed)
}

// findMutant returns a mutant by its name; nil for an empty name.
func findMutant(name string) (*mutant.Mutant, error) {
	if name == "" {
		return nil, nil
	}
	if f := mutant.Find(name); f != nil {
		return f, nil
	}
	var allowed []string
	for _, f := range mutant.All() {
		allowed = append(allowed, f.Name)
	}
	return nil, unknownNameError("mutant", name, allowed)
}

// mutantsNamed returns the named mutant, or all mutants for an empty name.
func mutantsNamed(only string) ([]*mutant.Mutant, error) {
	if f, err := findMutant(only); f != nil || err != nil {
		return []*mutant.Mutant{f}, err
	}
	return mutant.All(), nil
}
