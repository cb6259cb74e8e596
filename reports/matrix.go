package reports

import "handoff/chaos/verdict"

// matrix is the table that shows which scenario kills which mutant. Weak points come first: scenarios that
// kill no mutant, and mutants that at most one scenario kills.
type matrix struct {
	Seeds                 int
	Idle, Lone, Survivors []string
	Mutants               []matrixMutant
	Rows                  []matrixRow
	Scenario              int
}

type matrixMutant struct {
	verdict.MatrixMutant
	Killers int
	// Weak reports whether at most one scenario kills the mutant.
	Weak bool
}

type matrixRow struct {
	Scenario string
	Kills    int
	Cells    []matrixCell
}

type matrixCell struct {
	// Runs is the number of runs until the mutant was killed; 0 if it was never killed.
	Runs   int
	Mutant string
	// Own reports whether the scenario was written for the mutant, and Only whether no other scenario kills
	// the mutant.
	Own, Only bool
}

func newMatrix(v *verdict.Matrix) *matrix {
	if v == nil {
		return nil
	}
	m := &matrix{Seeds: v.Seeds, Scenario: len(v.Scenarios)}
	kills, killers := v.Kills()
	for i, f := range v.Mutants {
		m.Mutants = append(m.Mutants, matrixMutant{MatrixMutant: f, Killers: killers[i], Weak: killers[i] < 2})
		switch killers[i] {
		case 0:
			m.Survivors = append(m.Survivors, f.Name)
		case 1:
			m.Lone = append(m.Lone, f.Name)
		}
	}
	for j, name := range v.Scenarios {
		row := matrixRow{Scenario: name, Kills: kills[j]}
		for i, f := range v.Mutants {
			row.Cells = append(row.Cells, matrixCell{
				Runs: v.Runs[i][j], Mutant: f.Name, Own: f.Own == name, Only: v.Runs[i][j] > 0 && killers[i] == 1,
			})
		}
		if kills[j] == 0 {
			m.Idle = append(m.Idle, name)
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}
