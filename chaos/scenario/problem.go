package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a file: where it stands, what is wrong, and what would be right there.
type Problem struct {
	File         string
	Line, Column int // from 1; the column counts characters, not bytes
	Message      string
	// Allowed lists what may stand there, if that is a list; Nearest is the entry that was probably
	// meant, empty where nothing is near.
	Allowed []string
	Nearest string
	// Source is the line itself, for the frame under the message.
	Source string
}

// Text is the message with what is allowed and what was probably meant, in one line, without the
// position.
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

// Error is file:line:column and Text, as editors and terminals link it, then the line with a caret.
func (p Problem) Error() string {
	head := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text())
	source, column := window(p.Source, p.Column)
	if strings.TrimSpace(source) == "" {
		return head
	}
	number := fmt.Sprintf("%5d", p.Line)
	// Tabs before the caret stay tabs, so that it stands under its character at any tab width.
	pad := strings.Map(func(c rune) rune {
		if c == '\t' {
			return c
		}
		return ' '
	}, string([]rune(source)[:column-1]))
	return fmt.Sprintf("%s\n%s | %s\n%s | %s^", head, number, source, strings.Repeat(" ", len(number)), pad)
}

// window cuts a long line around a column, so that the frame fits a terminal.
func window(source string, column int) (string, int) {
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

// Errors is every mistake of a file, in the order of the lines.
type Errors []Problem

// Error joins them all, each with its frame.
func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, p := range e {
		texts[i] = p.Error()
	}
	return strings.Join(texts, "\n")
}

// nearest is the entry of allowed that got was probably meant to be, or "". Near means a third of
// the longer name may differ: "worker" is near to "workers", "crush" to "crash", "dog" to nothing.
func nearest(got string, allowed []string) string {
	best, least := "", 0
	for _, a := range allowed {
		d := distance(strings.ToLower(got), strings.ToLower(a))
		if d > max(1, max(len(got), len(a))/3) {
			continue
		}
		if best == "" || d < least {
			best, least = a, d
		}
	}
	return best
}

// distance counts the characters to insert, remove, replace or swap with their neighbour.
func distance(a, b string) int {
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
