package config

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	tokenA = "aaaaaaaaaaaaaaaa"
	tokenB = "bbbbbbbbbbbbbbbb"
)

func TestTokensFromFileAndEnvironment(t *testing.T) {
	want := []Token{{Name: "ci", Token: tokenA, OldToken: tokenB, Rights: RightSubmit}, {Name: "ops.1", Token: "cccccccccccccccc", Rights: RightOperate}}
	list := `[{name: ci, token: ` + tokenA + `, old_token: ` + tokenB + `, rights: submit}, {name: ops.1, token: cccccccccccccccc, rights: operate}]`
	asJSON := `[{"name": "ci", "token": "` + tokenA + `", "old_token": "` + tokenB + `", "rights": "submit"}, {"name": "ops.1", "token": "cccccccccccccccc", "rights": "operate"}]`
	for name, in := range map[string]Input{
		"file":            {File: "c.yaml", Data: []byte(addresses + "api: {tokens: " + list + "}\n")},
		"variable":        {File: "c.yaml", Data: []byte(addresses), Environ: []string{"HANDOFF_API_TOKENS=" + list}},
		"variable, JSON":  {File: "c.yaml", Data: []byte(addresses), Environ: []string{"HANDOFF_API_TOKENS=" + asJSON}},
		"variable, block": {File: "c.yaml", Data: []byte(addresses), Environ: []string{"HANDOFF_API_TOKENS=" + strings.ReplaceAll(strings.Trim(asJSON, "[]"), "}, {", "}\n- {")}},
	} {
		if name == "variable, block" {
			in.Environ[0] = strings.Replace(in.Environ[0], "={", "=- {", 1)
		}
		e, problems := Load(in)
		if len(problems) > 0 || !reflect.DeepEqual(e.Deployment.Tokens(), want) {
			t.Errorf("%s: %v\n%+v", name, problems, e.Deployment.Tokens())
		}
		var out bytes.Buffer
		e.Print(&out)
		shown := `tokens: [{name: "ci", token: "***", old_token: "***", rights: submit}, {name: "ops.1", token: "***", rights: operate}]`
		if !strings.Contains(out.String(), shown) {
			t.Errorf("%s is printed as\n%s", name, &out)
		}
	}
	e, _ := Load(Input{Environ: []string{"HANDOFF_API_TOKEN=short"}})
	if got := e.Deployment.Tokens(); len(got) != 1 || got[0].Name != DefaultToken || got[0].Rights != RightOperate {
		t.Errorf("api.token is %+v", got)
	}
}

// Every mistake is reported at its position, and no message or frame quotes a value that may be a token.
func TestTokenErrorsRevealNoTokens(t *testing.T) {
	const secret = "s3cr3t-s3cr3t-s3cr3t"
	for file, want := range map[string][]string{
		"api:\n  tokens:\n  - {name: a, token: " + secret + ", rights: submit}\n  - {name: a, token: " + tokenA + ", rights: read}\n": {
			"c.yaml:6:5: the name of entry 2 of api.tokens is that of entry 1; names tell tokens apart",
		},
		"api:\n  tokens:\n  - {name: a, token: " + secret + ", rights: submit}\n  - {name: b, token: " + tokenA + ", old_token: " + secret + ", rights: read}\n": {
			"c.yaml:6:5: entries 1 and 2 of api.tokens have a token in common; each needs its own",
		},
		"api:\n  tokens:\n  - name: a\n    token: s3cr3t\n    rights: " + secret + "\n": {
			"c.yaml:6:12: token of an entry of api.tokens is too short to be safe: it has 6 characters, must have at least 16; `openssl rand -hex 24` makes a good one",
			"c.yaml:7:13: rights of an entry of api.tokens must be read, submit or operate; each includes the ones before it",
		},
		"api: {tokens: " + secret + "}\n":   {"c.yaml:3:15: api.tokens must be a list of {name, token, rights}"},
		"api: {tokens: [" + secret + "]}\n": {"c.yaml:3:16: every entry of api.tokens must be a mapping such as {name: ci, token: TOKEN, rights: submit}"},
		"api:\n  tokens:\n  - name: a b\n    right: read\n    token:\n    - " + secret + "\n": {
			"c.yaml:5:5: an entry of api.tokens has no rights; it needs name, token and rights",
			"c.yaml:5:11: name of an entry of api.tokens must be 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or a digit",
			`c.yaml:6:5: unknown key in an entry of api.tokens; allowed: name, token, old_token, rights; did you mean "rights"?`,
			"c.yaml:8:5: token of an entry of api.tokens must be a string; put it in quotes",
		},
		"api: {token: " + secret + ", tokens: [{name: default, token: " + tokenA + ", rights: read}]}\n": {
			`c.yaml:3:44: api.tokens: has an entry that is called "default", which is the name of the token in api.token; take another name`,
		},
		"api: {token: " + secret + ", tokens: [{name: b, token: " + secret + ", rights: read}]}\n": {
			`c.yaml:3:44: api.tokens: has the token of api.token in the entry "b"; leave one of them out`,
		},
		"api: {tokens: [{name: b, token: " + secret + ", old_token: " + secret + ", rights: read}]}\n": {
			"c.yaml:3:16: token and old_token of an entry of api.tokens are the same; leave old_token out",
		},
		"api: {allowed_hosts: [handoff.example.com, 'https://a', 'a:80', '[::1]', '::1', '*.example.com']}\n": {
			`c.yaml:3:22: api.allowed_hosts: "https://a" is not the name or address of a host; write it without scheme and port, such as handoff.example.com`,
			`c.yaml:3:22: api.allowed_hosts: "a:80" is not the name or address of a host; write it without scheme and port, such as handoff.example.com`,
			`c.yaml:3:22: api.allowed_hosts: "[::1]" is not the name or address of a host; write it without scheme and port, such as handoff.example.com`,
			`c.yaml:3:22: api.allowed_hosts: "*.example.com" is not the name or address of a host; write it without scheme and port, such as handoff.example.com`,
		},
	} {
		e, problems := Load(Input{File: "c.yaml", Data: []byte(addresses + file)})
		if got := texts(problems); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant:\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		var out bytes.Buffer
		e.Print(&out)
		if all := out.String() + problems.Error(); strings.Contains(all, "s3cr3t") {
			t.Errorf("%s is revealed:\n%s", file, all)
		}
	}
	_, problems := Load(Input{File: "c.yaml", Data: []byte(addresses), Environ: []string{`HANDOFF_API_TOKENS=[{"name": "a", "token": "s3cr3t", "rights": "read"}]`}})
	want := "HANDOFF_API_TOKENS: token of an entry of api.tokens is too short to be safe: it has 6 characters, must have at least 16; `openssl rand -hex 24` makes a good one (line 1, column 25)"
	if got := texts(problems); len(got) != 1 || got[0] != want {
		t.Errorf("in a variable: %q", got)
	}
	for _, text := range []string{"s3cr3t", "[s3cr3t", "*s3cr3t", "- s3cr3t: {", "{a: s3cr3t}"} {
		if _, problems := Load(Input{File: "c.yaml", Data: []byte(addresses), Environ: []string{"HANDOFF_API_TOKENS=" + text}}); len(problems) != 1 || strings.Contains(problems.Error(), "s3cr3t") {
			t.Errorf("%q in a variable: %v", text, problems)
		}
	}
}

func TestLoopbackAcceptsOnlyLocalAddresses(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:8080": true, "127.1.2.3:0": true, "localhost:8080": true, "LocalHost:1": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "[::ffff:0.0.0.0]:0": false, "10.0.0.1:8080": false, "192.0.2.1:80": false, "handoff.example.com:8080": false,
		"localhost.evil.example:80": false, "127.1:80": false, "[fe80::1%lo]:80": false, "unix:/run/handoff.sock": false, "": false, "127.0.0.1": false, "0:8080": false,
	} {
		if got := Loopback(listen); got != want {
			t.Errorf("Loopback(%q) = %v", listen, got)
		}
	}
}

func TestExposedServerNeedsTokenOrInsecure(t *testing.T) {
	for settings, refused := range map[string]bool{
		"listen: 127.0.0.1:8080": false, "listen: ''": false, "listen: localhost:0": false,
		"listen: ':8080'": true, "listen: 0.0.0.0:8080": true, "listen: '[::]:8080'": true, "listen: 10.0.0.1:80": true, "listen: handoff.example.com:80": true,
		"listen: 0.0.0.0:8080, token: x":                                                 false,
		"listen: 0.0.0.0:8080, insecure: true":                                           false,
		"listen: 0.0.0.0:8080, tokens: []":                                               true,
		"listen: 0.0.0.0:8080, allowed_hosts: [a]":                                       true,
		"listen: 0.0.0.0:8080, tokens: [{name: a, token: " + tokenA + ", rights: read}]": false,
		"tls: {cert_file: a}":                                                            true, "tls: {key_file: a}": true, "tls: {cert_file: a, key_file: b}": false,
	} {
		e, problems := Load(Input{File: "c.yaml", Data: []byte(addresses + "api: {" + settings + "}\n")})
		if len(problems) > 0 {
			t.Errorf("%s: a worker does not start with it: %v", settings, problems)
		}
		found := e.Deployment.ValidateServing()
		if (len(found) > 0) != refused {
			t.Errorf("%s: %v", settings, found)
		}
		for _, p := range found {
			if !strings.HasPrefix(e.Locate(p).Where(), "c.yaml:3:") {
				t.Errorf("%s: %v is reported without its position", settings, p)
			}
		}
	}
}

func TestRightsIncludeWeakerRights(t *testing.T) {
	for i, has := range Rights() {
		for j, needs := range Rights() {
			if has.Includes(needs) != (i >= j) {
				t.Errorf("%s includes %s: %v", has, needs, has.Includes(needs))
			}
		}
		if has.Includes("") || Right("").Includes(has) || Right("root").Includes(has) {
			t.Errorf("an unknown right is in %s, or includes it", has)
		}
	}
}
