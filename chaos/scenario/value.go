package scenario

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// The patterns of names and values, which the schema uses too.
const (
	namePattern  = `^[a-z0-9]+(-[a-z0-9]+)*$`
	boundPattern = `^(<=|>=|=|<|>)? ?[0-9]{1,9} ?%?$`
)

var (
	nameForm  = regexp.MustCompile(namePattern)
	boundForm = regexp.MustCompile(boundPattern)
)

// readBound reads ">= 95%", "0" or 0.
func (l *loader) readBound(n *yaml.Node, of string) (Bound, bool) {
	b := Bound{Of: of, Op: "=", Source: n.Value}
	if n.Kind != yaml.ScalarNode || !boundForm.MatchString(n.Value) {
		l.Refuse(n, `%s must be a count or a whole percentage, such as 0, ">= 3" or ">= 95%%", is %s`, of, yamlfile.KindOf(n))
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
		l.Refuse(n, "%s is bounded by %d%%; a share is at most 100%%", of, b.Value)
		return b, false
	}
	// Few people who write 99% mean that 100% is a failure, but 0% and 100% are meant exactly.
	if percent && digits == 0 && b.Value > 0 && b.Value < 100 {
		l.Warn(n, `%s: %s means exactly that share, and more is a failure; write ">= %d%%" for at least, or "= %d%%" for exactly`, of, n.Value, b.Value, b.Value)
	}
	return b, true
}
