package broker

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"handoff/core/execution"
)

func sampleDispatch() Envelope {
	return Envelope{
		MessageID: "7.3", Type: ExecutionScheduled, CorrelationID: "7",
		Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC), Version: 1,
		Dispatches: []Dispatch{{
			Key: execution.Key{ID: 7, Epoch: 3}, Worker: 2, Incarnation: 11,
			Action: execution.Action{
				Ref: "core.echo", Runtime: "shell", Entrypoint: "echo \"<&>\"", Timeout: 90 * time.Second,
				DispatchTimeout: 5 * time.Second, MaxRetries: 2,
			},
			Parameters: []byte(`{"text":"a<b"}`),
		}},
	}
}

// sampleBlock carries three dispatches, one of them without parameters.
func sampleBlock() Envelope {
	e := sampleDispatch()
	e.MessageID, e.Version = "7.3+2", VersionBlock
	for id := execution.ID(8); id < 10; id++ {
		d := e.Dispatches[0]
		d.Key, d.Parameters = execution.Key{ID: id, Epoch: 1}, nil
		e.Dispatches = append(e.Dispatches, d)
	}
	return e
}

func sampleHint() Envelope {
	return Envelope{
		MessageID: "executor-1/4", Type: ExecutionStatusChanged, Timestamp: time.Unix(1_700_000_000, 5).UTC(), Version: 1,
		Changes: []Change{
			{Key: execution.Key{ID: 7, Epoch: 3}, From: execution.Running, To: execution.Completed},
			{Key: execution.Key{ID: 8}, To: execution.Requested},
			{Key: execution.Key{ID: 9, Epoch: 1}, From: execution.Running, To: execution.Completed, Handled: true},
		},
	}
}

// TestWireFormatDoesNotChange pins the bytes, because other releases and other languages read them.
func TestWireFormatDoesNotChange(t *testing.T) {
	for want, e := range map[string]Envelope{
		`{"message_id":"7.3","message_type":"execution.scheduled","correlation_id":"7","timestamp":"2026-01-02T03:04:05.6789Z","version":1,` +
			`"payload":{"execution_id":7,"epoch":3,"worker":2,"incarnation":11,"action_ref":"core.echo","runtime":"shell","entrypoint":"echo \"<&>\"",` +
			`"timeout_ms":90000,"dispatch_timeout_ms":5000,"max_retries":2,"parameters":{"text":"a<b"}}}`: sampleDispatch(),
		`{"message_id":"executor-1/4","message_type":"execution.status_changed","timestamp":"2023-11-14T22:13:20.000000005Z","version":1,` +
			`"payload":{"executions":[{"id":7,"epoch":3,"from":"running","to":"completed"},{"id":8,"epoch":0,"to":"requested"},` +
			`{"id":9,"epoch":1,"from":"running","to":"completed","handled":true}]}}`: sampleHint(),
	} {
		body, err := Encode(&e)
		if err != nil || string(body) != want {
			t.Errorf("%v is written as\n%s, %v; want\n%s", e.Type, body, err, want)
		}
	}
}

// TestDecodeSkipsUnknownFields: a publisher may send fields that are not read, such as the deadline.
func TestDecodeSkipsUnknownFields(t *testing.T) {
	e := sampleDispatch()
	body, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	body = bytes.Replace(body, []byte(`"epoch":3`), []byte(`"deadline":"2026-01-02T03:06:05Z","epoch":3`), 1)
	if got, err := Decode(body); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("read as %+v, %v", got, err)
	}
}

func TestDecodeErrorNamesField(t *testing.T) {
	dispatch, hint := sampleDispatch(), sampleHint()
	d, _ := Encode(&dispatch)
	h, _ := Encode(&hint)
	change := func(body []byte, old, with string) string {
		if !bytes.Contains(body, []byte(old)) {
			t.Fatalf("%s is not in %s", old, body)
		}
		return strings.Replace(string(body), old, with, 1)
	}
	for _, c := range []struct{ name, body, want string }{
		{"empty", "", "not JSON"},
		{"not JSON", "hello", "not JSON"},
		{"a list", "[]", "not an object"},
		{"null", "null", "field version is missing"},
		{"no UTF-8", "{\"message_type\": \xff", "not UTF-8"},
		{"garbage behind", string(d) + "x", "not JSON"},
		{"two messages", string(d) + string(d), "not JSON"},
		{"cut off", string(d[:len(d)-3]), "not JSON"},
		{"no id", change(d, `"message_id":"7.3",`, ""), "field message_id is missing"},
		{"empty id", change(d, `"7.3"`, `""`), "field message_id is missing"},
		{"long id", change(d, `7.3`, strings.Repeat("x", 256)), "field message_id is longer"},
		{"id is a number", change(d, `"7.3"`, `7`), "field message_id is a JSON number, which is no string"},
		{"no type", change(d, `"message_type":"execution.scheduled",`, ""), "field message_type is missing"},
		{"unknown type", change(d, `execution.scheduled`, "execution.paused"), `field message_type is "execution.paused"`},
		{"empty type", change(d, `execution.scheduled`, ""), `field message_type is ""`},
		{"no version", change(d, `"version":1,`, ""), "field version is missing"},
		{"next version", change(d, `"version":1`, `"version":3`), "field version is 3, only 1 and 2 are known"},
		{"one dispatch as a block", change(d, `"version":1`, `"version":2`), "field payload.dispatches is missing"},
		{"a hint as a block", change(h, `"version":1`, `"version":2`), "field version is 2, which no execution.status_changed has"},
		{"version in words", change(d, `"version":1`, `"version":"1"`), "field version is a JSON string, which is no 64-bit integer"},
		{"no timestamp", change(d, `"timestamp":"2026-01-02T03:04:05.6789Z",`, ""), "field timestamp is missing"},
		{"timestamp", change(d, `2026-01-02T`, `yesterday `), "field timestamp is"},
		{"correlation", change(d, `"correlation_id":"7"`, `"correlation_id":7`), "field correlation_id is a JSON number"},
		{"no payload", change(h, `"payload"`, `"data"`), "field payload is missing"},
		{"payload null", `{"message_id":"1","message_type":"execution.requested","timestamp":"2026-01-02T03:04:05Z","version":1,"payload":null}`, "field payload is missing"},
		{"payload is a list", `{"message_id":"1","message_type":"execution.requested","timestamp":"2026-01-02T03:04:05Z","version":1,"payload":[]}`, "field payload is a JSON array, which is no object"},
		{"other payload", change(h, "execution.status_changed", "execution.scheduled"), "field payload.execution_id is missing"},
		{"other payload", change(d, "execution.scheduled", "execution.completed"), "field payload.executions is missing"},
		{"no epoch", change(d, `"epoch":3,`, ""), "field payload.epoch is missing"},
		{"epoch null", change(d, `"epoch":3,`, `"epoch":null,`), "field payload.epoch is missing"},
		{"epoch with a point", change(d, `"epoch":3`, `"epoch":3.5`), "field payload.epoch is a JSON number"},
		{"epoch beyond 64 bits", change(d, `"epoch":3`, `"epoch":9223372036854775808`), "field payload.epoch is a JSON number"},
		{"negative worker", change(d, `"worker":2`, `"worker":-2`), "field payload.worker is -2"},
		{"no worker", change(d, `"worker":2,`, ""), "field payload.worker is missing"},
		{"no incarnation", change(d, `"incarnation":11,`, ""), "field payload.incarnation is missing"},
		{"no ref", change(d, `"action_ref":"core.echo",`, ""), "field payload.action_ref is missing"},
		{"no runtime", change(d, `"runtime":"shell",`, ""), "field payload.runtime is missing"},
		{"execution 0", change(d, `"execution_id":7`, `"execution_id":0`), "field payload.execution_id is 0"},
		{"timeout beyond time", change(d, `"timeout_ms":90000`, `"timeout_ms":9223372036855`), "field payload.timeout_ms is"},
		{"retries", change(d, `"max_retries":2`, `"max_retries":-1`), "field payload.max_retries is -1"},
		{"list is an object", change(h, `[{"id":7,"epoch":3,"from":"running","to":"completed"},{"id":8,"epoch":0,"to":"requested"},{"id":9,"epoch":1,"from":"running","to":"completed","handled":true}]`, `{}`), "field payload.executions is a JSON object, which is no list"},
		{"entry is a number", change(h, `{"id":8,"epoch":0,"to":"requested"}`, `8`), "field payload.executions is a JSON number, which is no object"},
		{"entry without id", change(h, `"id":8,`, ``), "field payload.executions[1].id is missing"},
		{"entry without epoch", change(h, `"epoch":0,`, ``), "field payload.executions[1].epoch is missing"},
		{"handled in words", change(h, `"handled":true`, `"handled":"yes"`), "field payload.executions.handled is a JSON string, which is no boolean"},
		{"id in words", change(h, `"id":8`, `"id":"8"`), "field payload.executions.id is a JSON string"},
		{"id 0", change(h, `"id":8`, `"id":0`), "field payload.executions[1].id is 0"},
		{"negative epoch", change(h, `"epoch":0`, `"epoch":-1`), "field payload.executions[1].epoch is -1"},
		{"from", change(h, `"running"`, `"walking"`), `field payload.executions[0].from is "walking"`},
		{"to", change(h, `"requested"`, `"none"`), `field payload.executions[1].to is "none"`},
		{"too long", string(d) + strings.Repeat(" ", MaxBody), "longer than"},
	} {
		_, err := Decode([]byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", c.name, err, c.want)
		}
	}
}

// A dispatch that can't be read does not affect the others. If none can be read, the block is
// treated like any other bad message.
func TestBadDispatchLeavesBlockReadable(t *testing.T) {
	e := sampleBlock()
	body, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, with, want string }{
		{"no epoch", `"execution_id":8,"epoch":1`, `"execution_id":8`, "dispatch 2 of the block: message field payload.epoch is missing"},
		{"another type", `"execution_id":8`, `"execution_id":"8"`, "dispatch 2 of the block: message field execution_id is a JSON string, which is no 64-bit integer"},
		{"no object", `{"execution_id":8,`, `[],{"execution_id":8,`, "dispatch 2 of the block: message is a JSON array, not an object"},
		{"null", `{"execution_id":8,`, `null,{"execution_id":8,`, "dispatch 2 of the block: message field payload.execution_id is missing"},
	} {
		spoilt := bytes.Replace(body, []byte(c.old), []byte(c.with), 1)
		got, err := Decode(spoilt)
		if err != nil || len(got.Unread) != 1 || got.Unread[0].Why != c.want || len(got.Unread[0].Body) == 0 {
			t.Errorf("%s: %v, unread %+v", c.name, err, got.Unread)
			continue
		}
		for _, d := range got.Dispatches {
			if d.Worker != 2 || d.Incarnation != 11 || d.Action != e.Dispatches[0].Action {
				t.Errorf("%s: read %+v", c.name, d)
			}
		}
		if n := len(got.Dispatches); got.Dispatches[0].Key.ID != 7 || got.Dispatches[n-1].Key.ID != 9 {
			t.Errorf("%s: read %+v", c.name, got.Dispatches)
		}
	}
	before, _, _ := bytes.Cut(body, []byte(`"dispatches":[`))
	for _, c := range []struct{ name, old, with, want string }{
		{"no worker", `"worker":2,`, ``, "dispatch 1 of the block: message field payload.worker is missing"},
		{"none", string(body[len(before):]), `"dispatches":[]}}`, "message field payload.dispatches is missing"},
		{"too many", `"dispatches":[`, `"dispatches":[` + strings.Repeat("{},", MaxDispatches-2), "message field payload.dispatches are 1001, more than 1000"},
		{"no list", `"dispatches":[`, `"dispatches":{}, "x":[`, "message field payload.dispatches is a JSON object, which is no list"},
	} {
		if _, err := Decode(bytes.Replace(body, []byte(c.old), []byte(c.with), 1)); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestEncodeRefusesUnreadableMessages(t *testing.T) {
	for want, spoil := range map[string]func(*Envelope){
		"field version is 0":                    func(e *Envelope) { e.Version = 0 },
		"field message_type is not set":         func(e *Envelope) { e.Type = NoType },
		"field message_id is missing":           func(e *Envelope) { e.MessageID = "" },
		"field message_id is longer":            func(e *Envelope) { e.MessageID = strings.Repeat("x", 256) },
		"field correlation_id is not UTF-8":     func(e *Envelope) { e.CorrelationID = "\xff" },
		"field payload is not the one":          func(e *Envelope) { e.Dispatches = nil },
		"is not the one of execution.completed": func(e *Envelope) { e.Type = ExecutionCompleted },
		"field timestamp has":                   func(e *Envelope) { e.Timestamp = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"field payload.execution_id is 0":       func(e *Envelope) { e.Dispatches[0].Key.ID = 0 },
		"field payload.epoch is -1":             func(e *Envelope) { e.Dispatches[0].Key.Epoch = -1 },
		"field payload.runtime is not UTF-8":    func(e *Envelope) { e.Dispatches[0].Action.Runtime = "\xc3" },
		"payload.parameters can't be written":   func(e *Envelope) { e.Dispatches[0].Parameters = []byte("{") },
		"payload.parameters is not UTF-8":       func(e *Envelope) { e.Dispatches[0].Parameters = []byte("\"\xff\"") },
		"is longer than 1048576": func(e *Envelope) {
			e.Dispatches[0].Parameters = []byte(`"` + strings.Repeat("x", MaxBody) + `"`)
		},
		"field payload is not the one of execution.scheduled": func(e *Envelope) {
			e.Dispatches = append(e.Dispatches, e.Dispatches[0])
		},
		"field payload.dispatches are for several incarnations": func(e *Envelope) {
			*e = sampleBlock()
			e.Dispatches[2].Incarnation++
		},
		"field payload.dispatches are 1001, more than 1000": func(e *Envelope) {
			*e = sampleBlock()
			for len(e.Dispatches) <= MaxDispatches {
				e.Dispatches = append(e.Dispatches, e.Dispatches[0])
			}
		},
		"dispatch 2 of the block: message field payload.execution_id is 0": func(e *Envelope) {
			*e = sampleBlock()
			e.Dispatches[1].Key.ID = 0
		},
		"payload.executions[0].id is -1": func(e *Envelope) {
			*e = sampleHint()
			e.Changes[0].Key.ID = -1
		},
	} {
		e := sampleDispatch()
		spoil(&e)
		if _, err := Encode(&e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestEncodeRoundsShortDurationsUp(t *testing.T) {
	e := sampleDispatch()
	e.Dispatches[0].Action.Timeout = time.Nanosecond
	body, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Decode(body); err != nil || back.Dispatches[0].Action.Timeout != time.Millisecond {
		t.Errorf("1 ns comes back as %v, %v", back.Dispatches[0].Action.Timeout, err)
	}
}

// anyEnvelope returns a generator of envelopes that the core may publish.
func anyEnvelope() *rapid.Generator[Envelope] {
	// The fast reader of hints reads numbers of up to 18 digits.
	number := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, 1<<62), rapid.SampledFrom([]int64{longestHinted, longestHinted + 1, math.MaxInt64}))
	id := number.Filter(func(n int64) bool { return n > 0 })
	ms := rapid.Int64Range(0, 1<<40)
	status := rapid.Uint8Range(0, uint8(execution.Abandoned))
	return rapid.Custom(func(t *rapid.T) Envelope {
		e := Envelope{
			MessageID:     rapid.OneOf(rapid.StringN(1, 40, 255), rapid.Just("executor-1/4")).Draw(t, "message id"),
			Type:          Type(rapid.IntRange(1, Types-1).Draw(t, "type")),
			CorrelationID: rapid.OneOf(rapid.StringN(0, 40, 255), rapid.Just("")).Draw(t, "correlation id"),
			Timestamp:     time.Unix(rapid.Int64Range(-1<<32, 1<<37).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC(),
			Version:       WireVersion,
		}
		if e.Type == DeadLetterCanary {
			return e
		}
		if e.Type != ExecutionScheduled {
			for range rapid.IntRange(0, 5).Draw(t, "changes") {
				e.Changes = append(e.Changes, Change{
					Key:  execution.Key{ID: execution.ID(id.Draw(t, "id")), Epoch: execution.Epoch(number.Draw(t, "epoch"))},
					From: execution.Status(status.Draw(t, "from")), To: execution.Status(status.Draw(t, "to")),
					Handled: rapid.Bool().Draw(t, "handled"),
				})
			}
			return e
		}
		one := Dispatch{
			Key:    execution.Key{ID: execution.ID(id.Draw(t, "id")), Epoch: execution.Epoch(number.Draw(t, "epoch"))},
			Worker: execution.WorkerID(number.Draw(t, "worker")), Incarnation: execution.Incarnation(number.Draw(t, "incarnation")),
			Action: execution.Action{
				Ref: rapid.String().Draw(t, "ref"), Runtime: rapid.String().Draw(t, "runtime"), Entrypoint: rapid.String().Draw(t, "entrypoint"),
				Timeout:         time.Duration(ms.Draw(t, "timeout")) * time.Millisecond,
				DispatchTimeout: time.Duration(ms.Draw(t, "dispatch timeout")) * time.Millisecond,
				MaxRetries:      int(rapid.Int32Range(0, 1<<30).Draw(t, "retries")),
			},
		}
		if rapid.Bool().Draw(t, "with parameters") {
			one.Parameters, _ = json.Marshal(map[string]string{rapid.String().Draw(t, "key"): rapid.String().Draw(t, "value")})
		}
		e.Dispatches = []Dispatch{one}
		for n := range rapid.IntRange(0, 3).Draw(t, "others in the block") {
			one.Key.Epoch, one.Parameters = execution.Epoch(n), nil
			e.Dispatches, e.Version = append(e.Dispatches, one), VersionBlock
		}
		return e
	})
}

// longestHinted is the largest number that the fast reader of hints reads.
const longestHinted = 999_999_999_999_999_999

// hinted reports whether the fast reader must read a message: a hint with at least one change, no escaped
// characters and no number above longestHinted.
func hinted(e *Envelope) bool {
	escaped := func(c rune) bool { return c < ' ' || strings.ContainsRune("\"\\\u2028\u2029", c) }
	long := func(c Change) bool { return c.Key.ID > longestHinted || c.Key.Epoch > longestHinted }
	return len(e.Changes) > 0 && e.CorrelationID == "" && !strings.ContainsFunc(e.MessageID, escaped) && !slices.ContainsFunc(e.Changes, long)
}

// Every message decodes to what was encoded; hints do so in both readers. If it was changed in one place,
// both readers read the same, or the fast one leaves it to the other.
func TestDecodeReversesEncode(t *testing.T) {
	envelopes := anyEnvelope()
	rapid.Check(t, func(t *rapid.T) {
		e := envelopes.Draw(t, "envelope")
		body, err := Encode(&e)
		if err != nil {
			t.Fatalf("writing: %v", err)
		}
		back, err := Decode(body)
		if err != nil {
			t.Fatalf("reading %s: %v", body, err)
		}
		if !reflect.DeepEqual(back, e) {
			t.Fatalf("came back as %+v", back)
		}
		if _, ok := decodeHint(body); ok != hinted(&e) {
			t.Fatalf("the fast reader of hints reads %s: %v", body, ok)
		}
		if careful, err := decodeJSON(body); err != nil || !reflect.DeepEqual(careful, e) {
			t.Fatalf("the reader of all messages reads %s as %+v, %v", body, careful, err)
		}
		end := rapid.SampledFrom([]string{"x", "}", ",", "\x00", "{}"}).Draw(t, "behind")
		if _, err := Decode([]byte(string(body) + end)); err == nil {
			t.Fatalf("read with %q behind it: %s", end, body)
		}
		at, other := rapid.IntRange(0, len(body)-1).Draw(t, "at"), rapid.SampledFrom([]byte("\"\\\x01 09-,{}]x\xff")).Draw(t, "other")
		changed := slices.Insert(bytes.Clone(body), at, other)
		if rapid.Bool().Draw(t, "replaced") {
			changed = slices.Delete(changed, at+1, at+2)
		}
		if quick, ok := decodeHint(changed); ok {
			if plain, err := decodeJSON(changed); err != nil || !reflect.DeepEqual(quick, plain) {
				t.Fatalf("%s is read as %+v; any message as %+v, %v", changed, quick, plain, err)
			}
		}
	})
}

// A body, a block and a year are accepted at their limits, and refused above.
func TestMessagesAreLimitedAtTheirBounds(t *testing.T) {
	written := func(e Envelope) ([]byte, bool) {
		body, err := Encode(&e)
		return body, err == nil
	}
	for more, lawful := range map[int]bool{-1: true, 0: true, 1: false} {
		e := sampleDispatch()
		e.Dispatches[0].Parameters = []byte(`""`)
		body, _ := written(e)
		padding := MaxBody + more - len(body)
		_, err := Decode(append(body, strings.Repeat(" ", padding)...))
		e.Dispatches[0].Parameters = []byte(`"` + strings.Repeat("x", padding) + `"`)
		body, ok := written(e)
		if ok != lawful || (err == nil) != lawful || lawful && len(body) != MaxBody+more {
			t.Errorf("a body of %+d bytes is written: %v; read: %v", more, ok, err)
		}
		e = sampleBlock()
		e.Dispatches = slices.Repeat(e.Dispatches[1:2], MaxDispatches+more)
		body, ok = written(e)
		if back, err := Decode(body); ok != lawful || ok && (err != nil || len(back.Dispatches) != MaxDispatches+more) {
			t.Errorf("a block of %+d dispatches is written: %v; read: %v", more, ok, err)
		}
	}
	first, end := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for at, lawful := range map[time.Time]bool{first: true, first.Add(-time.Second): false, end.Add(-time.Second): true, end: false} {
		for _, e := range []Envelope{sampleDispatch(), sampleHint()} {
			e.Timestamp = at
			if _, ok := written(e); ok != lawful {
				t.Errorf("a message of %v is written: %v", at, ok)
			}
			// Another publisher may write the time with a zone offset, but the year must have four digits
			// there, too.
			zone := time.FixedZone("", 2*3600)
			if at.Year() > 1 {
				zone = time.FixedZone("", -2*3600)
			}
			e.Timestamp = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			body, _ := written(e)
			body = bytes.Replace(body, []byte("2000-01-01T00:00:00Z"), []byte(at.In(zone).Format(time.RFC3339)), 1)
			if back, err := Decode(body); (err == nil) != lawful || lawful && !back.Timestamp.Equal(at) {
				t.Errorf("%s is read: %v", body, err)
			}
		}
	}
}

// The output of Encode is read as a hint if and only if it is a hint.
func TestDecodeHintReadsOnlyHints(t *testing.T) {
	e := sampleHint()
	body, err := Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	if read, ok := decodeHint(body); !ok || !reflect.DeepEqual(read, e) {
		t.Errorf("%s is read as %+v, %v", body, read, ok)
	}
	for i := range body {
		for _, other := range []byte{'"', '{', ' ', '0', '-', 'x', '\\', 0xff} {
			changed := bytes.Clone(body)
			changed[i] = other
			quick, ok := decodeHint(changed)
			if plain, err := decodeJSON(changed); ok && (err != nil || !reflect.DeepEqual(quick, plain)) {
				t.Errorf("%s is read as %+v; any message as %+v, %v", changed, quick, plain, err)
			}
		}
		if _, ok := decodeHint(body[:i]); ok {
			t.Errorf("%s is read as a hint", body[:i])
		}
	}
	one := sampleDispatch()
	if body, err = Encode(&one); err != nil {
		t.Fatal(err)
	}
	if _, ok := decodeHint(body); ok {
		t.Errorf("%s is read as a hint", body)
	}
}

// FuzzDecode: nothing panics, and every accepted message can be rewritten and reread unchanged.
func FuzzDecode(f *testing.F) {
	for _, e := range []Envelope{sampleDispatch(), sampleHint(), sampleBlock()} {
		body, err := Encode(&e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
		f.Add(append(body, body...))
		f.Add(body[:len(body)/2])
		f.Add(bytes.ReplaceAll(body, []byte(`"`), []byte(`'`)))
		f.Add(bytes.ReplaceAll(body, []byte("7"), []byte("9223372036854775808")))
		f.Add(bytes.ReplaceAll(body, []byte("{"), []byte("[{")))
	}
	for _, seed := range []string{
		"", "null", "{}", "[]", "0", `"\ud800"`, strings.Repeat("[", 100_000), "\x00", "{\"message_type\": \xff",
		`{"version":1,"message_type":"execution.requested","message_id":"1","timestamp":"0000-01-01T00:00:00+23:59","payload":{"executions":[]}}`,
		`{"version":1,"message_type":"execution.scheduled","message_id":"\u0000","timestamp":"9999-12-31T23:59:59-23:59","payload":{}}`,
		`{"version":1,"VERSION":2,"Message_Type":"execution.completed","message_id":"1","timestamp":"2026-01-01T00:00:00,5Z","payload":{"executions":[null]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := Decode(body)
		if quick, ok := decodeHint(body); ok {
			if plain, err := decodeJSON(body); err != nil || !reflect.DeepEqual(quick, plain) {
				t.Fatalf("read as a hint %+v, as any message %+v (%v)", quick, plain, err)
			}
		}
		if err != nil {
			if !reflect.DeepEqual(e, Envelope{}) {
				t.Fatalf("refused (%v) and yet read: %+v", err, e)
			}
			return
		}
		// The unreadable part of a block is not rewritten.
		e.Unread = nil
		again, err := Encode(&e)
		if len(body) > MaxBody/2 && err != nil {
			// Escapes and defaults may make the rewritten message too long.
			return
		}
		if err != nil {
			t.Fatalf("accepted, and can't be written: %v", err)
		}
		back, err := Decode(again)
		if err != nil {
			t.Fatalf("accepted as %s, written as %s, refused: %v", body, again, err)
		}
		for i := range e.Dispatches {
			if e.Dispatches[i].Parameters == nil {
				continue
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, e.Dispatches[i].Parameters); err != nil {
				t.Fatal(err)
			}
			e.Dispatches[i].Parameters = compact.Bytes()
		}
		if !reflect.DeepEqual(e, back) {
			t.Fatalf("%+v came back as %+v", e, back)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	e := sampleDispatch()
	for b.Loop() {
		if _, err := Encode(&e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	e := sampleDispatch()
	body, err := Encode(&e)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeHint(b *testing.B) {
	e := sampleHint()
	body, err := Encode(&e)
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func() bool{
		"quick": func() bool { _, ok := decodeHint(body); return ok },
		"plain": func() bool { _, err := decodeJSON(body); return err == nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !read() {
					b.Fatal("not read")
				}
			}
		})
	}
}
