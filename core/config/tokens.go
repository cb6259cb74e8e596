package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// Right is a permission of an API token. Each right includes the weaker ones.
type Right string

// The rights. read allows queries. submit also allows creating, cancelling and retrying executions. operate
// also allows defining actions, which are commands on the workers' machines, settling dead letters and
// controlling workers.
const (
	RightRead    Right = "read"
	RightSubmit  Right = "submit"
	RightOperate Right = "operate"
)

// Rights lists the rights, the weakest first.
func Rights() []Right { return []Right{RightRead, RightSubmit, RightOperate} }

// Includes reports whether r covers the right need. An unknown right includes none, and none includes it.
func (r Right) Includes(need Right) bool {
	at := slices.Index(Rights(), need)
	return at >= 0 && slices.Index(Rights(), r) >= at
}

// Token is one of the tokens that API requests may carry, and its rights.
type Token struct {
	// Name identifies the token in the audit trail, the log and refusals, where the token itself must not
	// appear.
	Name string
	// Token is the bearer token of the requests.
	Token string
	// OldToken is accepted as well, under the same name; empty for none. During a rotation both are
	// valid until every client has the new token.
	OldToken string
	// Rights is the token's strongest right.
	Rights Right
}

// DefaultToken is the name of the token in api.token.
const DefaultToken = "default"

// leastToken is the minimum length of a token in api.tokens: 16 random characters are infeasible to guess.
const leastToken = 16

// tokenName is the pattern of a token's name, which appears in log lines and in idempotency scopes.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Tokens returns all tokens of the API: the entries of api.tokens and, named "default" with every right,
// api.token.
func (d Deployment) Tokens() []Token {
	all := slices.Clone(d.API.Tokens)
	if d.API.Token != "" {
		all = append(all, Token{Name: DefaultToken, Token: d.API.Token, Rights: RightOperate})
	}
	return all
}

var tokensType = reflect.TypeFor[[]Token]()

// readTokens reads a list of tokens. No message quotes a value, because any of them may be a misplaced token.
func (l Leaf) readTokens(r *yamlfile.Reader, n *yaml.Node) ([]Token, bool) {
	r.Hide(n)
	if n.Kind != yaml.SequenceNode {
		r.Refuse(n, "%s must be a list of {name, token, rights}", l.Path)
		return nil, false
	}
	var list []Token
	ok := true
	for _, item := range n.Content {
		t, good := l.readToken(r, item)
		if good {
			good = l.checkDistinct(r, item, list, t)
		}
		ok = ok && good
		list = append(list, t)
	}
	return list, ok
}

func (l Leaf) readToken(r *yamlfile.Reader, n *yaml.Node) (t Token, ok bool) {
	if n.Kind != yaml.MappingNode {
		r.Refuse(n, "every entry of %s must be a mapping such as {name: ci, token: TOKEN, rights: submit}", l.Path)
		return t, false
	}
	ok = true
	refuse := func(at *yaml.Node, message string, args ...any) {
		r.Refuse(at, message, args...)
		ok = false
	}
	var rights string
	fields := map[string]*string{"name": &t.Name, "token": &t.Token, "old_token": &t.OldToken, "rights": &rights}
	allowed := []string{"name", "token", "old_token", "rights"}
	seen := map[string]bool{}
	for _, e := range r.Entries(n, "an entry of "+l.Path) {
		into, known := fields[e.Name]
		seen[e.Name] = true
		switch {
		case !known:
			r.RefuseAt(e.Key.Line, e.Key.Column, yamlfile.Problem{
				Message: "unknown key in an entry of " + l.Path, Allowed: allowed, Nearest: yamlfile.Nearest(e.Name, allowed),
			})
			ok = false
		case e.Value.Kind != yaml.ScalarNode || e.Value.ShortTag() != "!!str":
			refuse(e.Value, "%s of an entry of %s must be a string; put it in quotes", e.Name, l.Path)
		default:
			*into = e.Value.Value
			if why := badTokenField(e.Name, e.Value.Value); why != "" {
				refuse(e.Value, "%s of an entry of %s %s", e.Name, l.Path, why)
			}
		}
	}
	t.Rights = Right(rights)
	for _, name := range []string{"name", "token", "rights"} {
		if !seen[name] {
			refuse(n, "an entry of %s has no %s; it needs name, token and rights", l.Path, name)
		}
	}
	if ok && t.Token == t.OldToken {
		refuse(n, "token and old_token of an entry of %s are the same; leave old_token out", l.Path)
	}
	return t, ok
}

// badTokenField returns the reason for refusing a field's value, without quoting it; empty if it is valid.
func badTokenField(field, value string) string {
	switch field {
	case "name":
		if !tokenName.MatchString(value) {
			return "must be 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or a digit"
		}
	case "rights":
		if !slices.Contains(Rights(), Right(value)) {
			return "must be read, submit or operate; each includes the ones before it"
		}
	default:
		if hasUnsendableCharacter(value) {
			return "has a character that an HTTP header can't carry; use letters, digits and punctuation, without spaces"
		}
		if len(value) < leastToken {
			return fmt.Sprintf("is too short to be safe: it has %d characters, must have at least %d; `openssl rand -hex 24` makes a good one", len(value), leastToken)
		}
	}
	return ""
}

// checkDistinct refuses an entry that has the name or a token of an earlier one.
func (l Leaf) checkDistinct(r *yamlfile.Reader, n *yaml.Node, earlier []Token, t Token) bool {
	for i, e := range earlier {
		switch {
		case e.Name == t.Name:
			r.Refuse(n, "the name of entry %d of %s is that of entry %d; names tell tokens apart", len(earlier)+1, l.Path, i+1)
			return false
		case e.sharesToken(t):
			r.Refuse(n, "entries %d and %d of %s have a token in common; each needs its own", i+1, len(earlier)+1, l.Path)
			return false
		}
	}
	return true
}

// sharesToken reports whether two entries have a token in common.
func (t Token) sharesToken(o Token) bool {
	for _, one := range []string{t.Token, t.OldToken} {
		if one != "" && (one == o.Token || one == o.OldToken) {
			return true
		}
	}
	return false
}

// parseTokens parses the list from an environment variable, in YAML or JSON.
func (l Leaf) parseTokens(text string) (reflect.Value, yamlfile.Problem, bool) {
	r := yamlfile.NewReader("", "list of tokens", []byte(text))
	root := r.Root([]byte(text))
	if root == nil {
		return reflect.Zero(tokensType), yamlfile.Problem{Message: l.Path + ` must be a list in YAML or JSON, such as [{"name": "ci", "token": "TOKEN", "rights": "submit"}]`}, false
	}
	list, ok := l.readTokens(r, root)
	if !ok {
		p := r.Problems()[0]
		p.Message = fmt.Sprintf("%s (line %d, column %d)", p.Message, p.Line, p.Column)
		p.Line, p.Column = 0, 0
		return reflect.Zero(tokensType), p, false
	}
	return reflect.ValueOf(list), yamlfile.Problem{}, true
}

// showTokens formats the list as YAML, with masked tokens.
func showTokens(list []Token) string {
	texts := make([]string, len(list))
	for i, t := range list {
		old := ""
		if t.OldToken != "" {
			old = fmt.Sprintf(", old_token: %q", masked)
		}
		texts[i] = fmt.Sprintf("{name: %q, token: %q%s, rights: %s}", t.Name, masked, old, t.Rights)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// hasUnsendableCharacter reports whether a token has a character that an HTTP header can't carry.
func hasUnsendableCharacter(token string) bool {
	return strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' })
}
