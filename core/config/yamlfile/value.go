package yamlfile

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

// MaxDuration bounds durations for which the caller gives no other bound. No configurable deadline is longer,
// and a sum of a few can't overflow.
const MaxDuration = 31 * 24 * time.Hour

var (
	durationForm = regexp.MustCompile(DurationPattern)
	shareForm    = regexp.MustCompile(SharePattern)
)

// durationUnits returns the allowed units of a duration. No deadline here needs the smaller ones of
// time.ParseDuration.
func durationUnits() []string { return []string{"ms", "s", "m", "h"} }

// Text reads a scalar as a string that is not empty.
func (r *Reader) Text(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		r.Refuse(n, "%s must be a string, is %s", what, KindOf(n))
		return "", false
	}
	if strings.TrimSpace(n.Value) == "" {
		r.Refuse(n, "%s must not be empty", what)
		return "", false
	}
	return n.Value, true
}

// Printable is Text, but refuses control characters other than tabs and line ends, for texts that reports and
// terminals show.
func (r *Reader) Printable(n *yaml.Node, what string) (string, bool) {
	text, ok := r.Text(n, what)
	for _, c := range text {
		if !unicode.IsPrint(c) && c != '\n' && c != '\t' {
			r.Refuse(n, "%s holds the character %U; text must be printable, with tabs and line ends", what, c)
			return "", false
		}
	}
	return text, ok
}

// Choice reads a scalar as one of a few names. what is the word for such a name in messages, such as
// "direction".
func (r *Reader) Choice(n *yaml.Node, what string, allowed []string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.Unknown(n, fmt.Sprintf("%s must be a name, is %s", what, KindOf(n)), "", allowed)
		return "", false
	}
	if !slices.Contains(allowed, n.Value) {
		r.Unknown(n, fmt.Sprintf("unknown %s %q", what, Cut(n.Value)), n.Value, allowed)
		return "", false
	}
	return n.Value, true
}

// Choices reads a list of names, each at most once, at the key where. It returns the allowed ones;
// ok is false if it refused any.
func (r *Reader) Choices(n *yaml.Node, what, where string, allowed []string) (list []string, ok bool) {
	items, ok := r.Items(n, where)
	for _, item := range items {
		name, good := r.Choice(item, what, allowed)
		if good && slices.Contains(list, name) {
			r.Refuse(item, "duplicate value %s under %s", name, where)
			good = false
		}
		if good {
			list = append(list, name)
		}
		ok = ok && good
	}
	return list, ok
}

// Bool reads true or false.
func (r *Reader) Bool(n *yaml.Node, what string) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		r.Refuse(n, "%s must be true or false, is %s", what, KindOf(n))
		return false, false
	}
	return strings.EqualFold(n.Value, "true"), true
}

// Integer reads a whole number within bounds.
func (r *Reader) Integer(n *yaml.Node, what string, least, most int64) (int64, bool) {
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
		r.Refuse(n, "%s must be a whole number, is %s", what, KindOf(n))
		return 0, false
	}
	if v < least || v > most {
		r.Refuse(n, "%s is %d, must be from %d to %d", what, v, least, most)
		return 0, false
	}
	return v, true
}

// Float reads a number.
func (r *Reader) Float(n *yaml.Node, what string) (float64, bool) {
	var v float64
	if n.Kind != yaml.ScalarNode || n.Decode(&v) != nil || v != v {
		r.Refuse(n, "%s must be a number, is %s", what, KindOf(n))
		return 0, false
	}
	return v, true
}

// Share reads a percentage above 0 and up to 100. It returns parts per million.
func (r *Reader) Share(n *yaml.Node, what string) (perMillion uint64, ok bool) {
	number, percent := strings.CutSuffix(n.Value, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	switch numeric := n.Kind == yaml.ScalarNode && err == nil; {
	case numeric && !percent:
		if v < 1 { // the author probably meant 0.05 as 5 %
			v *= 100
		}
		r.RefuseAt(n.Line, n.Column, Problem{
			Message: fmt.Sprintf("%s is %s without a percent sign", what, n.Value),
			Nearest: strconv.FormatFloat(v, 'g', 6, 64) + "%",
		})
	case numeric && !(v > 0 && v <= 100):
		r.Refuse(n, "%s is %s, must be more than 0%% and at most 100%%", what, n.Value)
	case !numeric || !shareForm.MatchString(n.Value):
		r.Refuse(n, "%s must be a percentage such as 5%% or 0.25%%, is %s", what, KindOf(n))
	default:
		return uint64(math.Round(v * 10_000)), true
	}
	return 0, false
}

// Span reads a list of two durations, the shortest and the longest. Neither may be below floor.
func (r *Reader) Span(n *yaml.Node, what string, floor time.Duration) (least, most time.Duration, ok bool) {
	if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
		r.Refuse(n, "%s must be a list of two durations such as [1s, 5s], is %s", what, KindOf(n))
		return 0, 0, false
	}
	least, good := r.Duration(n.Content[0], what, floor)
	most, fine := r.Duration(n.Content[1], what, floor)
	if !good || !fine {
		return 0, 0, false
	}
	if least > most {
		r.Refuse(n, "%s is reversed: %s is later than %s", what, Short(least), Short(most))
		return 0, 0, false
	}
	return least, most, true
}

// Duration reads a number with a unit of time. It must be from least to MaxDuration.
func (r *Reader) Duration(n *yaml.Node, what string, least time.Duration) (time.Duration, bool) {
	return r.DurationWithin(n, what, least, MaxDuration)
}

// DurationWithin reads a number with a unit of time. It must be from least to most.
func (r *Reader) DurationWithin(n *yaml.Node, what string, least, most time.Duration) (time.Duration, bool) {
	if n.Kind != yaml.ScalarNode {
		r.Refuse(n, "%s must be a duration such as 10s, is %s", what, KindOf(n))
		return 0, false
	}
	d, problem, ok := ParseDuration(n.Value, what, KindOf(n), least, most)
	if !ok {
		r.RefuseAt(n.Line, n.Column, problem)
	}
	return d, ok
}

// ParseDuration parses a number with a unit of time. If it fails, the Problem has the reason, without a
// position; called describes the text in its message.
func ParseDuration(text, what, called string, least, most time.Duration) (time.Duration, Problem, bool) {
	bare := strings.TrimLeft(text, "+-")
	if _, err := strconv.ParseFloat(bare, 64); err == nil && !strings.ContainsAny(bare, "nN") {
		return 0, Problem{
			Message: fmt.Sprintf("%s is %s without a unit", what, text),
			Allowed: durationUnits(), Nearest: text + "s",
		}, false
	}
	if unit := badUnit(bare); unit != "" {
		return 0, Problem{
			Message: fmt.Sprintf("%s has the unknown unit %q in %q", what, unit, text),
			Allowed: durationUnits(), Nearest: meantDuration(text, unit),
		}, false
	}
	d, err := time.ParseDuration(text)
	formed := durationForm.MatchString(bare)
	if err == nil && (d < least || d > most) || err != nil && formed { // well formed, but too large for time.Duration
		bound := fmt.Sprintf("must be from %s to %s", Short(least), Short(most))
		if err == nil && d < least && least == time.Millisecond {
			bound = "must be longer than 0s"
		}
		return 0, Problem{Message: fmt.Sprintf("%s is %s, %s", what, text, bound)}, false
	}
	if err != nil || !formed || bare != text {
		return 0, Problem{Message: fmt.Sprintf("%s must be a duration such as 10s, is %s", what, called)}, false
	}
	return d, Problem{}, true
}

// badUnit returns the first unknown unit of a duration, or "".
func badUnit(text string) string {
	if text == "" || text[0] < '0' || text[0] > '9' {
		return ""
	}
	for _, unit := range strings.FieldsFunc(text, func(c rune) bool { return c >= '0' && c <= '9' || c == '.' }) {
		if !slices.Contains(durationUnits(), unit) {
			return strings.TrimSpace(unit)
		}
	}
	return ""
}

// meantDuration suggests a replacement for a duration with an unknown unit: the duration in hours for days,
// otherwise only the unit.
func meantDuration(text, unit string) string {
	if !strings.HasPrefix(strings.ToLower(unit), "d") {
		return meantUnit(unit)
	}
	days, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, unit)), 64)
	if err != nil {
		return "" // no suggestion if days are combined with other units
	}
	return strconv.FormatFloat(24*days, 'f', -1, 64) + "h"
}

// meantUnit returns the unit that a word or another spelling probably means.
func meantUnit(unit string) string {
	switch u := strings.TrimSpace(strings.ToLower(unit)); {
	case strings.HasPrefix(u, "mil"), u == "msec", u == "msecs":
		return "ms"
	case strings.HasPrefix(u, "s"):
		return "s"
	case strings.HasPrefix(u, "mi"), u == "m":
		return "m"
	case strings.HasPrefix(u, "h"):
		return "h"
	}
	return ""
}

// Short formats a duration without the zero minutes and seconds that time.Duration.String writes.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
