package source

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"handoff/core/execution"
)

// The statements of the PostgreSQL adapter are texts in package variables and constants. An operator's result
// need not be valid SQL, which only a server can decide. A candidate that the server refuses to prepare is no
// mutant. The caller passes it to Draw, which draws the next one instead.

// addStatements adds the candidates in the statements of one file: in its raw string literals.
func (c *Catalog) addStatements(f *file) {
	for _, d := range f.tree.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR && g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			part := 0
			for _, value := range v.Values {
				ast.Inspect(value, func(n ast.Node) bool {
					lit, ok := n.(*ast.BasicLit)
					if ok && lit.Kind == token.STRING && strings.HasPrefix(lit.Value, "`") {
						part++
						name := v.Names[0].Name
						if part > 1 {
							name = fmt.Sprintf("%s.%d", name, part)
						}
						c.addCandidates(&function{file: f, name: name, literal: lit}, true)
					}
					return true
				})
			}
		}
	}
}

// sqlText is the text of a statement with its comments replaced by spaces, so that positions stay
// the same.
func (s *site) sqlText() string {
	return sqlComment.ReplaceAllStringFunc(s.fn.literal.Value, func(c string) string { return strings.Repeat(" ", len(c)) })
}

var sqlComment = regexp.MustCompile(`--[^\n]*`)

// inSQL adds a candidate that replaces the bytes [from, to) of a statement.
func (s *site) inSQL(from, to int, by string) {
	text := s.fn.literal.Value
	what := "%s replaced by %s"
	if strings.TrimSpace(by) == "" {
		what = "%s left out%s"
	} else {
		by = " " + strings.TrimSpace(by) + " "
	}
	base := s.fn.file.byteOffset(s.fn.literal.Pos())
	shown := ""
	if strings.TrimSpace(by) != "" {
		shown = quoteSource(by)
	}
	// The description quotes the whole line, because one "=" looks like another.
	around := strings.LastIndexByte(text[:from], '\n') + 1
	end := strings.IndexByte(text[to:], '\n')
	if end < 0 {
		end = len(text) - to
	}
	s.addCandidate(s.fn.literal.Pos()+token.Pos(from), []edit{{base + from, base + to, by}}, what+" in %s",
		quoteSource(text[from:to]), shown, quoteSource(text[around:to+end]))
}

var (
	sqlCompare  = regexp.MustCompile(`\s(<=|>=|<|>|<>)\s`)
	sqlNull     = regexp.MustCompile(`\bis (not )?null\b`)
	sqlExists   = regexp.MustCompile(`\bnot exists\b|\bexists\b`)
	sqlWord     = regexp.MustCompile(`'[a-z_]+'`)
	sqlLimit    = regexp.MustCompile("\\blimit [^\\n()`]*(\\([^()`]*\\))?")
	sqlOrder    = regexp.MustCompile("\\border by [^\\n()`]*")
	sqlLock     = regexp.MustCompile(`\bfor (no key update|update|key share|share)( of [a-z_]+)?( skip locked| nowait)?`)
	sqlClock    = regexp.MustCompile(`\bclock_timestamp\(\)|\(select now from clock\)`)
	sqlShift    = regexp.MustCompile(`(now|clock_timestamp\(\)|clock\)) (\+|-) `)
	sqlConnect  = regexp.MustCompile(`\b(and|where)\b`)
	sqlStops    = regexp.MustCompile(`^(and|or|group|order|limit|for|returning|then|union|window|having|left|join|cross|where|on|from|end|when|else|set|full|inner)\b`)
	sqlBetween  = regexp.MustCompile(`\bbetween\s+\S+\s*$`)
	sqlListWord = regexp.MustCompile(`'[a-z_]+'\s*,\s*|,\s*'[a-z_]+'`)
)

// Some conditions only guide the planner of PostgreSQL. sqlPlanned matches such a condition: it
// restricts a column to a list, directly after a join (sqlJoined) that implies the same restriction.
// Leaving it out changes no answer, so it gives no candidate. (TestKeptPlans of
// chaos/selftest/conformance/postgrestest would find it. See core/store/postgres/plans.go.)
var (
	sqlPlanned = regexp.MustCompile(`^\s*\w+\.\w+ = any\((\$\d+::\w+\[\]( \|\| \$\d+::\w+\[\])?|array\(select [^()]*\))\)\s*$`)
	sqlJoined  = regexp.MustCompile(`\b\w+\.\w+ = \w+\.\w+\s*$`)
)

func sqlComparisons(s *site) {
	text := s.sqlText()
	to := map[string][]string{"<": {"<=", ">"}, "<=": {"<", ">="}, ">": {">=", "<"}, ">=": {">", "<="}, "<>": {"="}}
	for _, m := range sqlCompare.FindAllStringSubmatchIndex(text, -1) {
		for _, by := range to[text[m[2]:m[3]]] {
			s.inSQL(m[2], m[3], by)
		}
	}
	for _, m := range sqlNull.FindAllStringIndex(text, -1) {
		by := "is not null"
		if strings.Contains(text[m[0]:m[1]], "not") {
			by = "is null"
		}
		s.inSQL(m[0], m[1], by)
	}
	for _, m := range sqlExists.FindAllStringIndex(text, -1) {
		by := "not exists"
		if strings.HasPrefix(text[m[0]:m[1]], "not") {
			by = "exists"
		}
		s.inSQL(m[0], m[1], by)
	}
}

// sqlConditions removes one condition of a conjunction. The condition ends at the next word that can't belong
// to it, or at the closing bracket around it.
func sqlConditions(s *site) {
	text := s.sqlText()
	for _, m := range sqlConnect.FindAllStringIndex(text, -1) {
		word := text[m[0]:m[1]]
		if word == "and" && sqlBetween.MatchString(text[:m[0]]) {
			continue
		}
		end := conditionEnd(text, m[1])
		if condition := text[m[1]:end]; strings.TrimSpace(condition) == "" || sqlPlanned.MatchString(condition) && sqlJoined.MatchString(text[:m[0]]) {
			continue
		}
		if word == "where" {
			s.inSQL(m[1], end, "true")
		} else {
			s.inSQL(m[0], end, "")
		}
	}
}

func conditionEnd(text string, at int) int {
	depth, word := 0, false
	for i := at; i < len(text); i++ {
		switch c := text[i]; {
		case c == '(':
			depth++
		case c == ')' && depth == 0, c == '`', c == ';':
			return i
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			return i
		case depth == 0 && !word && sqlStops.MatchString(text[i:]):
			if !sqlBetween.MatchString(text[at:i]) {
				return i
			}
		}
		word = text[i] == '_' || text[i] == '.' || text[i] >= 'a' && text[i] <= 'z'
	}
	return len(text)
}

// sqlFamilies are the names in the schema's enumerations (statuses, reasons, lifecycles), each in
// its order.
func sqlFamilies() [][]string {
	var statuses, lifecycles []string
	for v := execution.Requested; int(v) < execution.Statuses; v++ {
		statuses = append(statuses, v.String())
	}
	for v := execution.Starting; v <= execution.Lost; v++ {
		lifecycles = append(lifecycles, v.String())
	}
	return [][]string{statuses, execution.Reasons(), lifecycles}
}

func sqlStatuses(s *site) {
	text := s.sqlText()
	families := sqlFamilies()
	for _, m := range sqlWord.FindAllStringIndex(text, -1) {
		name := text[m[0]+1 : m[1]-1]
		for _, family := range families {
			at := slices.Index(family, name)
			if at < 0 {
				continue
			}
			for _, step := range []int{1, -1} {
				if to := at + step; to >= 0 && to < len(family) && family[to] != "" {
					s.inSQL(m[0], m[1], "'"+family[to]+"'")
				}
			}
			break
		}
	}
	for _, m := range sqlListWord.FindAllStringIndex(text, -1) {
		name := strings.Trim(text[m[0]:m[1]], "', \n\t")
		if slices.ContainsFunc(families, func(family []string) bool { return slices.Contains(family, name) }) {
			s.inSQL(m[0], m[1], "")
		}
	}
}

func sqlClocks(s *site) {
	text := s.sqlText()
	for _, m := range sqlClock.FindAllStringIndex(text, -1) {
		s.inSQL(m[0], m[1], "transaction_timestamp()")
	}
	for _, m := range sqlShift.FindAllStringSubmatchIndex(text, -1) {
		by := "-"
		if text[m[4]:m[5]] == "-" {
			by = "+"
		}
		s.inSQL(m[4], m[5], by)
	}
}

func sqlLimits(s *site) {
	text := s.sqlText()
	for _, m := range sqlLimit.FindAllStringIndex(text, -1) {
		s.inSQL(m[0], m[1], "")
	}
	for _, m := range sqlOrder.FindAllStringIndex(text, -1) {
		clause := text[m[0]:m[1]]
		for _, next := range []string{" limit ", " for "} {
			clause, _, _ = strings.Cut(clause, next)
		}
		m[1] = m[0] + len(clause)
		s.inSQL(m[0], m[1], "")
		first, rest, more := strings.Cut(clause, ",")
		if strings.HasSuffix(strings.TrimSpace(first), " desc") {
			first = strings.TrimSuffix(strings.TrimSpace(first), " desc")
		} else {
			first += " desc"
		}
		if more {
			first += "," + rest
		}
		s.inSQL(m[0], m[1], first)
	}
}

func sqlLocks(s *site) {
	text := s.sqlText()
	for _, m := range sqlLock.FindAllStringSubmatchIndex(text, -1) {
		s.inSQL(m[0], m[1], "")
		if m[6] >= 0 {
			s.inSQL(m[6], m[7], "")
		}
	}
}
