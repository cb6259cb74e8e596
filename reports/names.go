package reports

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// messageTypes gives the names of Event.Type in the broker's envelopes. The table is a copy, because reports
// must not depend on the broker; a test compares the two.
var messageTypes = [...]string{"", "execution.requested", "execution.scheduled", "execution.status_changed", "execution.completed", "execution.cancel", "dead_letter.canary"}

func messageType(t uint8) string {
	if int(t) < len(messageTypes) {
		return messageTypes[t]
	}
	return fmt.Sprintf("type(%d)", t)
}

// Printable escapes everything in a text that a terminal would interpret or can't show, as \x1b or \u202e:
// control characters, marks that change the direction of writing, and bytes that are not UTF-8. Texts of
// histories and scenarios may come from others. keep lists exceptions, such as "\n".
func Printable(text, keep string) string {
	var b strings.Builder
	done := 0
	for i, r := range text {
		if unicode.IsPrint(r) && r != utf8.RuneError || strings.ContainsRune(keep, r) && r != utf8.RuneError {
			continue
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		b.WriteString(text[done:i])
		b.WriteString(strings.Trim(strconv.Quote(text[i:i+size]), `"`))
		done = i + size
	}
	if done == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// FormatTime formats a time of a run for people, to the millisecond: 12.402s, 1m02.345s, 1h00m02.345s.
func FormatTime(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	ms := d.Milliseconds()
	h, m, s, ms := ms/3_600_000, ms/60_000%60, ms/1000%60, ms%1000
	switch {
	case h > 0:
		return fmt.Sprintf("%s%dh%02dm%02d.%03ds", sign, h, m, s, ms)
	case m > 0:
		return fmt.Sprintf("%s%dm%02d.%03ds", sign, m, s, ms)
	}
	return fmt.Sprintf("%s%d.%03ds", sign, s, ms)
}

// CommitText describes a program's commit for people, because some builds have no stamp.
func CommitText(commit string) string { return cmp.Or(commit, "unknown") }

// plural returns a count with its noun, such as "1 queue" or "2 queues".
func plural[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// firstLines keeps at most n lines of a text, and notes the number of omitted lines.
func firstLines(text string, n int) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) <= n {
		return lines
	}
	return append(lines[:n:n], fmt.Sprintf("… %s more", plural(len(lines)-n, "line")))
}
