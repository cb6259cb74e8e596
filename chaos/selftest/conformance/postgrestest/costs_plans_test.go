package postgrestest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// cost is the server's work for a call, counted and not timed. Rows are the tuples that the nodes of its
// plans returned or discarded, plus one for each start of a node. A pair that a nested loop compares is a
// row, even if both sides are in memory (the transition tables of a trigger). Buffers are the pages that were
// read, in memory or on disk, and temporary ones.
type cost struct{ rows, buffers float64 }

func (c cost) String() string {
	return fmt.Sprintf("%s/%s", withThousands(c.rows), withThousands(c.buffers))
}

// executed is one statement that the server has executed, as auto_explain reports it. A statement
// inside a trigger or a function is reported separately. The reads of a function also count for the
// statement that calls it.
type executed struct {
	Text string `json:"Query Text"`
	Plan step
}

// step is a node of a plan. Figures are averages over its loops.
type step struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	CTE      string  `json:"CTE Name"`
	Table    string  `json:"Tuplestore Name"`
	Function string  `json:"Function Name"`
	Loops    float64 `json:"Actual Loops"`
	Rows     float64 `json:"Actual Rows"`

	Filtered  float64 `json:"Rows Removed by Filter"`
	Joined    float64 `json:"Rows Removed by Join Filter"`
	Rechecked float64 `json:"Rows Removed by Index Recheck"`

	Hit         float64 `json:"Shared Hit Blocks"`
	Read        float64 `json:"Shared Read Blocks"`
	TempRead    float64 `json:"Temp Read Blocks"`
	TempWritten float64 `json:"Temp Written Blocks"`

	Plans []step
}

// ownWork is the work of the node without the nodes under it.
func (s *step) ownWork() float64 { return s.Loops * (1 + s.Rows + s.Filtered + s.Joined + s.Rechecked) }

func (s *step) String() string {
	on := s.Relation + s.CTE + s.Table + s.Function
	if s.Index != "" {
		on = strings.TrimSpace(on + " by " + s.Index)
	}
	if on != "" {
		on = " on " + on
	}
	return s.Type + on
}

func (s *step) walkNodes(f func(*step)) {
	f(s)
	for i := range s.Plans {
		s.Plans[i].walkNodes(f)
	}
}

// observer collects the plans of one session.
type observer struct {
	plans []executed
	wrong error
}

// readNotice reads a message of auto_explain: "duration: 0.123 ms plan:" and the plan.
func (o *observer) readNotice(text string) {
	head, _, ok := strings.Cut(text, "{")
	if !ok || !strings.HasPrefix(head, "duration: ") {
		return
	}
	var e executed
	if err := json.Unmarshal([]byte(text[len(head):]), &e); err != nil {
		o.wrong = fmt.Errorf("a plan of auto_explain can't be read: %w: %s", err, text)
		return
	}
	o.plans = append(o.plans, e)
}

// observed is the cost of one call, with its parts.
type observed struct {
	cost
	// nodes is the work by statement and node.
	nodes map[string]float64
}

func (o *observer) totalCost() observed {
	all := observed{nodes: make(map[string]float64)}
	for i := range o.plans {
		e := &o.plans[i]
		all.buffers += e.Plan.Hit + e.Plan.Read + e.Plan.TempRead + e.Plan.TempWritten
		e.Plan.walkNodes(func(s *step) {
			all.rows += s.ownWork()
			all.nodes[s.String()+" in «"+statementStart(e.Text)+"»"] += s.ownWork()
		})
	}
	return all
}

// statementStart is the beginning of a statement, on one line.
func statementStart(sql string) string {
	line := strings.Join(strings.Fields(sql), " ")
	if len(line) > 70 {
		line = line[:70] + "…"
	}
	return line
}

// grownNodes lists the nodes that grew most between two calls.
func grownNodes(before, after observed) string {
	type change struct {
		node     string
		from, to float64
	}
	var all []change
	for node, to := range after.nodes {
		all = append(all, change{node, before.nodes[node], to})
	}
	slices.SortFunc(all, func(a, b change) int { return int(b.to - b.from - a.to + a.from) })
	var text strings.Builder
	for _, c := range all[:min(3, len(all))] {
		if c.to > c.from {
			fmt.Fprintf(&text, "\n\t\t%s → %s rows: %s", withThousands(c.from), withThousands(c.to), c.node)
		}
	}
	return text.String()
}

// withThousands writes a count for readers: 1,234,567.
func withThousands(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
