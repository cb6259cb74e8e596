package yamlfile

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake: its position, a description, and the allowed values.
type Problem struct {
	// File is the name of a file, or of another source of a setting, such as an environment variable. For
	// other sources Line is 0.
	File         string
	Line, Column int // from 1; the column counts characters, not bytes
	Message      string
	// Allowed lists the allowed values, if they are a list. Nearest is the value that was probably meant,
	// empty if none is similar.
	Allowed []string
	Nearest string
	// Source is the line of the file that is shown below the message; empty for none.
	Source string
}

// Text returns the message in one line, with Allowed and Nearest, without the position.
func (p Problem) Text() string {
	text := p.Message
	if len(p.Allowed) > 0 {
		text += "; allowed: " + strings.Join(p.Allowed, ", ")
	}
	if p.Nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", p.Nearest)
	}
	return text
}

// Where returns file:line:column, which editors and terminals link, or only File if there is no line.
func (p Problem) Where() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error returns Where and Text, then the source line with a caret.
func (p Problem) Error() string {
	head := p.Text()
	if where := p.Where(); where != "" {
		head = where + ": " + head
	}
	source, column := cropLine(p.Source, p.Column)
	if p.Line == 0 || strings.TrimSpace(source) == "" {
		return head
	}
	number := fmt.Sprintf("%5d", p.Line)
	// Tabs before the caret are kept, so that the caret is under its character at any tab width.
	pad := strings.Map(func(c rune) rune {
		if c == '\t' {
			return c
		}
		return ' '
	}, string([]rune(source)[:column-1]))
	return fmt.Sprintf("%s\n%s | %s\n%s | %s^", head, number, source, strings.Repeat(" ", len(number)), pad)
}

// cropLine shortens a long line around a column, so that it fits a terminal.
func cropLine(source string, column int) (string, int) {
	const width, before = 120, 60
	line := []rune(strings.TrimRight(source, "\r\n"))
	column = max(1, min(column, len(line)+1))
	if len(line) <= width {
		return string(line), column
	}
	from := max(0, min(column-1-before, len(line)-width))
	cut := slices.Clone(line[from:min(len(line), from+width)])
	if from > 0 {
		cut[0] = '…'
	}
	if from+width < len(line) {
		cut[len(cut)-1] = '…'
	}
	return string(cut), column - from
}

// Errors are all mistakes in a file, in the order of the lines.
type Errors []Problem

// Error joins all problems, each with its source line.
func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, p := range e {
		texts[i] = p.Error()
	}
	return strings.Join(texts, "\n")
}

// Sort sorts by position, stably.
func (e Errors) Sort() {
	slices.SortStableFunc(e, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

// Nearest returns the entry of allowed that is most similar to got, or "". At most a third of the longer name
// may differ: "worker" matches "workers", "crush" matches "crash". If none is so similar, it returns the only
// entry that has got as a word: "max_retries" for "retries".
func Nearest(got string, allowed []string) string {
	const longest = 200 // computing a distance takes quadratic time, and every allowed name is shorter
	if len(got) > longest {
		return ""
	}
	best, least := "", 0
	for _, a := range allowed {
		d := editDistance(strings.ToLower(got), strings.ToLower(a))
		if d > max(1, max(len(got), len(a))/3) {
			continue
		}
		if best == "" || d < least {
			best, least = a, d
		}
	}
	if best != "" {
		return best
	}
	for _, a := range allowed {
		words := strings.FieldsFunc(strings.ToLower(a), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
		if len(words) < 2 || !slices.Contains(words, strings.ToLower(got)) {
			continue
		}
		if best != "" {
			return "" // ambiguous
		}
		best = a
	}
	return best
}

// editDistance counts the edits between two names: insertions, deletions, replacements and swaps of
// neighbours.
func editDistance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
