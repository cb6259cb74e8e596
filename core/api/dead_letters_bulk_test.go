package api

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"handoff/core/store"
)

func TestDeadLetterSummaryParametersAreChecked(t *testing.T) {
	b := letters(t)
	a := b.do("GET", lettersPath+"/summary", "")
	want := `"total":5,"groups":[{"from":"2033-05-18T02:33:20Z","reason":"expired","action_ref":"core.echo","worker":7,"worker_name":null,"count":4},` +
		`{"from":null,"reason":"malformed","action_ref":null,"worker":null,"worker_name":null,"count":1}],"more":true}`
	if a.status != 200 || !strings.Contains(a.text, want) {
		t.Errorf("the summary: %d %s", a.status, a.text)
	}
	all := store.DeadLetterSummaryQuery{Window: 24 * time.Hour, ByReason: true, ByAction: true, ByWorker: true, Limit: 50}
	if b.store.summary != all {
		t.Errorf("asked without parameters: %+v", b.store.summary)
	}
	b.do("GET", lettersPath+"/summary?window=90m&every=10m&by=action,worker&limit=7", "")
	if want := (store.DeadLetterSummaryQuery{Window: 90 * time.Minute, Every: 10 * time.Minute, ByAction: true, ByWorker: true, Limit: 7}); b.store.summary != want {
		t.Errorf("asked with all: %+v", b.store.summary)
	}
	for query, part := range map[string]string{
		"?window=1d": "must be a duration such as 90m, from 1s to 744h0m0s", "?window=745h": "744h", "?window=-1h": "from 1s", "?every=1ms": "from 1s",
		"?window=24h&every=1s": "more than 1000 periods", "?by=queue": "reason, action and worker", "?by=": "reason, action and worker", "?limit=501": "500", "?since=1": "is not known here",
	} {
		if a := b.do("GET", lettersPath+"/summary"+query, ""); a.status != 400 || !strings.Contains(a.text, part) {
			t.Errorf("%s is answered with %d: %s", query, a.status, a.text)
		}
	}
}

func TestBulkDiscardClosesSelectedLetters(t *testing.T) {
	b := letters(t)
	a := b.do("POST", lettersPath+"/discard", `{"ids":[4,2],"reason":"expired","queue":"q","action_ref":"core.echo","worker":7,"older_than_seconds":60,"after":1,"limit":20}`)
	if a.status != 200 || a.text != `{"discarded":3,"more":true,"next":7}`+"\n" {
		t.Errorf("the answer: %d %q", a.status, a.text)
	}
	want := store.DeadLetterDiscard{IDs: []int64{2, 4}, Reason: "expired", Queue: "q", ActionRef: "core.echo", Worker: 7, OlderThan: time.Minute, After: 1, Limit: 20}
	if !reflect.DeepEqual(b.store.discard, want) {
		t.Errorf("discarded %+v", b.store.discard)
	}
	b.do("POST", lettersPath+"/discard", `{"older_than_seconds":0}`)
	if want := (store.DeadLetterDiscard{Limit: 500}); !reflect.DeepEqual(b.store.discard, want) {
		t.Errorf("all: %+v", b.store.discard)
	}
}

func TestBulkDiscardRefusesInvalidBodies(t *testing.T) {
	b := letters(t)
	for body, part := range map[string]string{
		"": "does not say what to discard", "{}": "does not say what to discard", `{"after":3,"limit":5}`: "does not say what to discard",
		`{"ids":[]}`: "from 1 to 1000 ids", `{"ids":[0]}`: "whole number from 1", `{"ids":7}`: "must be a list", `{"reason":""}`: "leave it out for any",
		`{"reason":5}`: "must be a string", `{"queue":"\u0000"}`: "leave it out for any", `{"limit":1001,"reason":"x"}`: "from 1 to 1000", `{"older_than_seconds":-1}`: "from 0",
		`{"raeson":"expired"}`: `"nearest":"reason"`,
	} {
		if a := b.do("POST", lettersPath+"/discard", body); a.status != 400 || !strings.Contains(a.text, part) {
			t.Errorf("%s is answered with %d: %s", body, a.status, a.text)
		}
	}
	if b.store.discard.Limit != 0 {
		t.Errorf("a refused body has discarded %+v", b.store.discard)
	}
	if a := b.do("GET", lettersPath+"/discard", ""); a.status != 405 {
		t.Errorf("GET is answered with %d: %s", a.status, a.text)
	}
}
