package reports

import "handoff/chaos/verdict"

// matrix is the table of which scenario kills which flaw. What is weak in it comes first: who kills nothing, and
// what hangs by one scenario or by none.
type matrix struct {
	Seeds                   int
	Idle, Lone, Survivors   []string
	Flaws                   []matrixFlaw
	Rows                    []matrixRow
	Pairs, Killed, Scenario int
}

type matrixFlaw struct {
	verdict.MatrixFlaw
	Killers int
	// Weak says that one scenario kills it, or none.
	Weak bool
}

type matrixRow struct {
	Scenario string
	Kills    int
	Cells    []matrixCell
}

type matrixCell struct {
	// Runs is after how many runs the flaw was killed, 0 for never.
	Runs int
	Flaw string
	// Own says that the scenario is there for the flaw, Only that no other kills it.
	Own, Only bool
}

func newMatrix(v *verdict.Matrix) *matrix {
	if v == nil {
		return nil
	}
	m := &matrix{Seeds: v.Seeds, Pairs: len(v.Flaws) * len(v.Scenarios), Scenario: len(v.Scenarios)}
	kills, killers := v.Kills()
	for i, f := range v.Flaws {
		m.Flaws = append(m.Flaws, matrixFlaw{MatrixFlaw: f, Killers: killers[i], Weak: killers[i] < 2})
		switch killers[i] {
		case 0:
			m.Survivors = append(m.Survivors, f.Name)
		case 1:
			m.Lone = append(m.Lone, f.Name)
		}
	}
	for j, name := range v.Scenarios {
		row := matrixRow{Scenario: name, Kills: kills[j]}
		for i, f := range v.Flaws {
			row.Cells = append(row.Cells, matrixCell{
				Runs: v.Runs[i][j], Flaw: f.Name, Own: f.Own == name, Only: v.Runs[i][j] > 0 && killers[i] == 1,
			})
		}
		if kills[j] == 0 {
			m.Idle = append(m.Idle, name)
		}
		m.Killed += kills[j]
		m.Rows = append(m.Rows, row)
	}
	return m
}
