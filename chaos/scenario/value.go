package scenario

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"
)

// maxDuration bounds every time in a file: no deadline of the configuration is longer, and sums
// of a few of them can't overflow.
const maxDuration = 31 * 24 * time.Hour

// The forms of names and values. The schema carries the same patterns.
const (
	namePattern     = `^[a-z0-9]+(-[a-z0-9]+)*$`
	durationPattern = `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	sharePattern    = `^(100|[0-9]{1,2}(\.[0-9]{1,4})?) ?%$`
	boundPattern    = `^(<=|>=|=|<|>)? ?[0-9]{1,9} ?%?$`
)

var (
	nameForm     = regexp.MustCompile(namePattern)
	durationForm = regexp.MustCompile(durationPattern)
	shareForm    = regexp.MustCompile(sharePattern)
	boundForm    = regexp.MustCompile(boundPattern)
)

// units are those that a duration may have; time.ParseDuration knows smaller ones, which no
// deadline here is measured in.
func units() []string { return []string{"ms", "s", "m", "h"} }

// text reads a scalar as a text that isn't empty.
func (r *reader) text(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		r.refuse(n, "%s must be a text, is %s", what, kindOf(n))
		return "", false
	}
	if strings.TrimSpace(n.Value) == "" {
		r.refuse(n, "%s must not be an empty text", what)
		return "", false
	}
	// Reports and terminals show it, and a terminal would obey it.
	for _, c := range n.Value {
		if !unicode.IsPrint(c) && c != '\n' && c != '\t' {
			r.refuse(n, "%s holds the character %U; text must be printable, with tabs and line ends", what, c)
			return "", false
		}
	}
	return n.Value, true
}

// choice reads a scalar as one of a few names.
func (r *reader) choice(n *yaml.Node, what string, allowed []string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.unknown(n, fmt.Sprintf("%s must be a name, is %s", what, kindOf(n)), "", allowed)
		return "", false
	}
	if !slices.Contains(allowed, n.Value) {
		r.unknown(n, fmt.Sprintf("unknown %s %q", what, n.Value), n.Value, allowed)
		return "", false
	}
	return n.Value, true
}

// choices reads a list of names, each at most once.
func (r *reader) choices(n *yaml.Node, what, where string, allowed []string) ([]string, bool) {
	items, ok := r.items(n, where)
	var list []string
	for _, item := range items {
		name, good := r.choice(item, what, allowed)
		if good && slices.Contains(list, name) {
			r.refuse(item, "%s stands twice under %s", name, where)
			good = false
		}
		if good {
			list = append(list, name)
		}
		ok = ok && good
	}
	return list, ok
}

// integer reads a whole number within bounds.
func (r *reader) integer(n *yaml.Node, what string, least, most int64) (int64, bool) {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
		r.refuse(n, "%s must be a whole number, is %s", what, kindOf(n))
		return 0, false
	}
	if v < least || v > most {
		r.refuse(n, "%s is %d, must be from %d to %d", what, v, least, most)
		return 0, false
	}
	return v, true
}

// duration reads a time with a unit that is at least least.
func (r *reader) duration(n *yaml.Node, what string, least time.Duration) (time.Duration, bool) {
	if n.Kind != yaml.ScalarNode {
		r.refuse(n, "%s must be a duration such as 10s, is %s", what, kindOf(n))
		return 0, false
	}
	bare := strings.TrimLeft(n.Value, "+-")
	if _, err := strconv.ParseFloat(bare, 64); err == nil && !strings.ContainsAny(bare, "nN") {
		r.refuseAt(n.Line, n.Column, Problem{
			Message: fmt.Sprintf("%s is %s without a unit", what, n.Value),
			Allowed: units(), Nearest: n.Value + "s",
		})
		return 0, false
	}
	d, err := time.ParseDuration(n.Value)
	if unit := badUnit(bare); unit != "" {
		r.refuseAt(n.Line, n.Column, Problem{
			Message: fmt.Sprintf("%s has the unknown unit %q in %q", what, unit, n.Value),
			Allowed: units(), Nearest: meantUnit(unit),
		})
		return 0, false
	}
	if err == nil && (d < least || d > maxDuration) {
		bound := fmt.Sprintf("must be from %s to %s", short(least), short(maxDuration))
		if d < least && least == time.Millisecond {
			bound = "must be longer than 0s"
		}
		r.refuse(n, "%s is %s, %s", what, n.Value, bound)
		return 0, false
	}
	if err != nil || !durationForm.MatchString(n.Value) {
		r.refuse(n, "%s must be a duration such as 10s, is %s", what, kindOf(n))
		return 0, false
	}
	return d, true
}

// badUnit returns the first unit of a duration that is none, or "".
func badUnit(text string) string {
	if text == "" || text[0] < '0' || text[0] > '9' {
		return ""
	}
	for _, unit := range strings.FieldsFunc(text, func(c rune) bool { return c >= '0' && c <= '9' || c == '.' }) {
		if !slices.Contains(units(), unit) {
			return strings.TrimSpace(unit)
		}
	}
	return ""
}

// meantUnit is the unit that a word or another spelling of it stands for.
func meantUnit(unit string) string {
	switch u := strings.TrimSpace(strings.ToLower(unit)); {
	case strings.HasPrefix(u, "mil"), u == "msec", u == "msecs":
		return "ms"
	case strings.HasPrefix(u, "s"):
		return "s"
	case strings.HasPrefix(u, "mi"), u == "m":
		return "m"
	case strings.HasPrefix(u, "h"), strings.HasPrefix(u, "d"):
		return "h"
	}
	return ""
}

// span reads [least, most]; neither may be negative.
func (r *reader) span(n *yaml.Node, what string) (from, to time.Duration) {
	return r.spanFrom(n, what, 0)
}

// spanFrom reads [least, most]; neither may be below floor.
func (r *reader) spanFrom(n *yaml.Node, what string, floor time.Duration) (from, to time.Duration) {
	if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
		r.refuse(n, "%s must be a list of two durations such as [1s, 5s], is %s", what, kindOf(n))
		return 0, 0
	}
	from, good := r.duration(n.Content[0], what, floor)
	to, fine := r.duration(n.Content[1], what, floor)
	if !good || !fine {
		return 0, 0
	}
	if from > to {
		r.refuse(n, "%s is reversed: %s is later than %s", what, short(from), short(to))
		return 0, 0
	}
	return from, to
}

// share reads a percentage as parts of a million.
func (r *reader) share(n *yaml.Node, what string) uint64 {
	number, percent := strings.CutSuffix(n.Value, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if n.Kind == yaml.ScalarNode && err == nil && !percent {
		if v < 1 { // 0.05 is how a program says 5 %
			v *= 100
		}
		r.refuseAt(n.Line, n.Column, Problem{
			Message: fmt.Sprintf("%s is %s without a percent sign", what, n.Value),
			Nearest: strconv.FormatFloat(v, 'g', 6, 64) + "%",
		})
		return 0
	}
	if n.Kind == yaml.ScalarNode && err == nil && !(v > 0 && v <= 100) {
		r.refuse(n, "%s is %s, must be more than 0%% and at most 100%%", what, n.Value)
		return 0
	}
	if n.Kind != yaml.ScalarNode || !shareForm.MatchString(n.Value) {
		r.refuse(n, "%s must be a percentage such as 5%% or 0.25%%, is %s", what, kindOf(n))
		return 0
	}
	return uint64(math.Round(v * 10_000))
}

// bound reads ">= 95%", "0" or 0.
func (r *reader) bound(n *yaml.Node, of string) (Bound, bool) {
	b := Bound{Of: of, Op: "=", Source: n.Value}
	if n.Kind != yaml.ScalarNode || !boundForm.MatchString(n.Value) {
		r.refuse(n, `%s must be a count or a whole percentage, such as 0, ">= 3" or ">= 95%%", is %s`, of, kindOf(n))
		return b, false
	}
	digits := strings.IndexAny(n.Value, "0123456789")
	if op := strings.TrimSpace(n.Value[:digits]); op != "" {
		b.Op = op
	}
	number, percent := strings.CutSuffix(n.Value[digits:], "%")
	b.Percent = percent
	b.Value, _ = strconv.ParseInt(strings.TrimSpace(number), 10, 64) // at most nine digits
	if percent && b.Value > 100 {
		r.refuse(n, "%s is bounded by %d%%; a share is at most 100%%", of, b.Value)
		return b, false
	}
	return b, true
}

// short writes a duration without the zero minutes and seconds of time.Duration.String.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
