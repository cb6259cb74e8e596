package verdict

// Matrix says which scenario kills which mutant. It tells what a library is worth: a scenario that kills nothing
// guards against nothing that is known, and a mutant that only one scenario kills hangs by a thread.
type Matrix struct {
	Mutants []MatrixMutant
	// Scenarios are their names.
	Scenarios []string
	// Seeds is how many seeds each pair got under each profile.
	Seeds int
	// Runs is by mutant and scenario: after how many runs, over both profiles in turn, the invariant that is
	// named for the mutant was broken; 0 for never.
	Runs [][]int
}

// MatrixMutant is a mutant as the matrix names it.
type MatrixMutant struct {
	Name, Source, About string
	// Expected is the number of the invariant that must find it.
	Expected int
	// Own is the scenario that is there for it.
	Own string
}

// Kills is how many mutants each scenario kills, and Killers how many scenarios kill each mutant.
func (m *Matrix) Kills() (kills, killers []int) {
	kills, killers = make([]int, len(m.Scenarios)), make([]int, len(m.Mutants))
	for i := range m.Mutants {
		for j := range m.Scenarios {
			if m.Runs[i][j] > 0 {
				kills[j]++
				killers[i]++
			}
		}
	}
	return kills, killers
}
