package verdict

// Matrix records which scenario kills which mutant. It measures a library: a scenario that kills no mutant
// guards against no known bug, and a mutant killed by only one scenario is easily missed.
type Matrix struct {
	Mutants []MatrixMutant
	// Scenarios holds their names.
	Scenarios []string
	// Seeds is the number of seeds for each pair under each profile.
	Seeds int
	// Runs is indexed by mutant and scenario: the number of runs, over both profiles in turn, until
	// the mutant's expected invariant was broken; 0 for never.
	Runs [][]int
}

// MatrixMutant is a mutant as the matrix names it.
type MatrixMutant struct {
	Name, Source, About string
	// Expected is the number of the invariant that must detect it.
	Expected int
	// Own is the name of the scenario written for it.
	Own string
}

// Kills returns the number of mutants that each scenario kills, and the number of scenarios that
// kill each mutant.
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
