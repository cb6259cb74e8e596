package verdict

// Matrix records which scenario kills which mutant. It shows how good a library is: a scenario that kills no
// mutant protects against no known bug, and a mutant that only one scenario kills is easily missed.
type Matrix struct {
	Mutants []MatrixMutant
	// Scenarios holds the scenarios' names.
	Scenarios []string
	// Seeds is the number of seeds for each pair of mutant and scenario, under each profile.
	Seeds int
	// Runs is indexed by mutant and scenario: the number of runs, over both profiles in turn, until
	// the mutant's expected invariant was broken; 0 for never.
	Runs [][]int
}

// MatrixMutant describes a mutant in the matrix.
type MatrixMutant struct {
	Name, Source, About string
	// Expected is the number of the invariant that must detect it.
	Expected int
	// Own is the name of the scenario that was written for the mutant.
	Own string
}

// Kills returns how many mutants each scenario kills, and how many scenarios kill each mutant.
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
