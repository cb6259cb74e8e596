package verdict

// Matrix says which scenario kills which flaw. It tells what a library is worth: a scenario that kills nothing
// guards against nothing that is known, and a flaw that only one scenario kills hangs by a thread.
type Matrix struct {
	Flaws []MatrixFlaw
	// Scenarios are their names.
	Scenarios []string
	// Seeds is how many seeds each pair got under each profile.
	Seeds int
	// Runs is by flaw and scenario: after how many runs, over both profiles in turn, the invariant that is
	// named for the flaw was broken; 0 for never.
	Runs [][]int
}

// MatrixFlaw is a flaw as the matrix names it.
type MatrixFlaw struct {
	Name, Source, About string
	// Killer is the number of the invariant that must find it.
	Killer int
	// Own is the scenario that is there for it.
	Own string
}

// Kills is how many flaws each scenario kills, and Killers how many scenarios kill each flaw.
func (m *Matrix) Kills() (kills, killers []int) {
	kills, killers = make([]int, len(m.Scenarios)), make([]int, len(m.Flaws))
	for i := range m.Flaws {
		for j := range m.Scenarios {
			if m.Runs[i][j] > 0 {
				kills[j]++
				killers[i]++
			}
		}
	}
	return kills, killers
}
