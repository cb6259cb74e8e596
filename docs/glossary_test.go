package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

// A newcomer finds each word once, where the alphabet has it, with a way to read more. Links are followed in links_test.go.
func TestTheGlossaryIsAnAlphabetOfWordsThatLeadOn(t *testing.T) {
	p := readPage(t, "docs/glossary.md")
	b := p.tableOf(t, "Word", "means", "more")
	if len(b.rows) < 80 {
		t.Fatalf("the glossary has %d words: the test does not see them", len(b.rows))
	}
	var words []string
	for _, row := range b.rows {
		words = append(words, strings.ToLower(row[0]))
		if sentences := strings.Count(row[1]+" ", ". "); sentences < 1 || sentences > 3 {
			t.Errorf("%q is explained in %d sentences, want one to three", row[0], sentences)
		}
	}
	if !slices.IsSorted(words) {
		t.Error("the words are not in the order of the alphabet")
	}
	if n := len(slices.Compact(slices.Clone(words))); n != len(words) {
		t.Errorf("%d words stand there more than once", len(words)-n)
	}
	for line := range strings.Lines(string(p.source)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| Word ") && !linked.MatchString(line) {
			t.Errorf("%q leads nowhere", strings.TrimSpace(line))
		}
	}
}

// Words that other pages and the code define are in the glossary, too.
func TestTheGlossaryHasTheWordsOfThePagesAndOfTheCode(t *testing.T) {
	p := readPage(t, "docs/glossary.md")
	words := p.tableOf(t, "Word", "means", "more").column(0)
	ownership := readPage(t, "docs/ownership.md")
	for _, word := range ownership.tableOf(t, "word").column(0) {
		if !slices.Contains(words, word) {
			t.Errorf("docs/ownership.md explains %q, and the glossary does not", word)
		}
	}
	names := map[string]string{
		string(config.Hardened): "profile", string(config.Documented): "profile",
		verdict.Pass.String(): "verdict", verdict.Fail.String(): "verdict", verdict.Inconclusive.String(): "verdict",
		execution.Healthy.String(): "health", execution.Degraded.String(): "health", execution.Unhealthy.String(): "health",
		execution.Draining.String(): "lifecycle", execution.Lost.String(): "lifecycle",
		execution.Starting.String(): "lifecycle", execution.Active.String(): "lifecycle", execution.Stopped.String(): "lifecycle",
	}
	for name, word := range names {
		if !slices.Contains(words, name) && !regexp.MustCompile(`(?m)^\| `+word+` \|.*\b`+name+`\b`).Match(p.source) {
			t.Errorf("the glossary does not say that %q is a %s", name, word)
		}
	}
}
