package subprocess

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"handoff/core/execution"
	"handoff/core/worker"
)

// messageLimit bounds the text that explains a failure, in bytes.
const messageLimit = 4 << 10

// tail keeps the end of a stream.
type tail struct {
	limit int
	kept  []byte
	cut   int64

	// read is the number of bytes so far. When it exceeds most, flooded is called once; 0 means no limit.
	read, most int64
	flooded    func()
}

// readFrom reads until the stream ends, however long it is.
func (t *tail) readFrom(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		t.write(buf[:n])
		if t.read += int64(n); t.most > 0 && t.read > t.most && t.flooded != nil {
			t.flooded()
			t.flooded = nil
		}
		if err != nil {
			return
		}
	}
}

// write lets the buffer grow to twice the limit, so that it rarely moves its content.
func (t *tail) write(b []byte) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*t.limit {
		t.trim()
	}
}

func (t *tail) trim() {
	if over := len(t.kept) - t.limit; over > 0 {
		t.cut += int64(over)
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
}

// keptText returns the kept end as text that the database accepts, with a note if bytes are missing.
func (t *tail) keptText() string {
	t.trim()
	text := cleanText(string(t.kept))
	if t.cut > 0 {
		text = fmt.Sprintf("[%d bytes before this were not kept]\n%s", t.cut, text)
	}
	return text
}

// lastLine returns the last line that is not blank.
func (t *tail) lastLine() []byte {
	t.trim()
	b := bytes.TrimSpace(t.kept)
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		b = b[i+1:]
	} else if t.cut > 0 {
		return nil // the line's beginning was not kept
	}
	return bytes.TrimSpace(b)
}

// cleanText returns a text that the database accepts: valid UTF-8 without NUL.
func cleanText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// parseObject returns a line as a JSON object, or nil if it is not one. It rewrites the object, because
// PostgreSQL refuses some valid JSON: NUL, lone surrogates, numbers without bounds. A result that
// the database refuses would be lost.
func parseObject(line []byte) map[string]any {
	if len(line) == 0 || line[0] != '{' {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var m map[string]any
	if d.Decode(&m) != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	cleaned, _ := storableValue(m).(map[string]any)
	return cleaned
}

func storableValue(v any) any {
	switch v := v.(type) {
	case string:
		return cleanText(v)
	case json.Number:
		if _, err := strconv.ParseFloat(v.String(), 64); err != nil {
			return v.String()
		}
		return v
	case []any:
		for i := range v {
			v[i] = storableValue(v[i])
		}
		return v
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[cleanText(k)] = storableValue(x)
		}
		return m
	}
	return v
}

func encodeObject(m map[string]any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(m) != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// actionExit returns the Exit for an end and the output. retried holds the exit codes that the action
// declares.
func actionExit(e actionEnd, retried execution.ExitCodes, stdout, stderr *tail) worker.Exit {
	var exit worker.Exit
	last := parseObject(stdout.lastLine())
	if last != nil {
		exit.Output = encodeObject(last)
	} else if text := stdout.keptText(); text != "" {
		exit.Output = quoteJSON(text)
	}
	switch {
	case e.Cause.isOwn():
		exit.Reason = execution.Unknown
		exit.Message = failureText("ended: "+string(e.Cause), stderr)
	case e.Cause == causeStopped:
		exit.Reason = execution.WorkerShutdown
		exit.Message = failureText("ended: "+string(e.Cause), stderr)
	case e.Cause != "":
		exit.Killed = true
		exit.Message = "killed: " + string(e.Cause)
	case e.Signal != "":
		// The worker did not end it. The cause may be a crash, a kernel short of memory or an operator.
		exit.Reason = execution.Unknown
		what := "ended by signal: " + e.Signal
		if e.OutOfMemory {
			what = "ended by the kernel: it used more memory than worker.isolation.memory_bytes"
		}
		exit.Message = failureText(what, stderr)
	case e.Code != 0:
		classifyFailure(&exit, last, e.Code, retried, stderr)
	}
	return exit
}

// classifyFailure finds the reason of a failure: from the last line, else from the exit codes that the action
// declares, else from worker.ExitCodes.
func classifyFailure(exit *worker.Exit, last map[string]any, code int, retried execution.ExitCodes, stderr *tail) {
	for _, line := range []map[string]any{last, parseObject(stderr.lastLine())} {
		said, ok := line["error"].(map[string]any)
		if !ok {
			continue
		}
		name, _ := said["type"].(string)
		message, _ := said["message"].(string)
		exit.Reason, exit.Message = ownReason(name), shortenText(message)
		return
	}
	exit.Code, exit.Reason, exit.Message = code, worker.ReasonOf(code, retried), failureText(fmt.Sprintf("exit status %d", code), stderr)
}

// ownReason returns the reason that an action reports, or Unknown if actions must not report it.
func ownReason(name string) execution.Reason {
	if r, err := execution.ParseReason(name); err == nil && r.OfAction() {
		return r
	}
	return execution.Unknown
}

// failureText returns what happened, followed by the end of standard error.
func failureText(what string, stderr *tail) string {
	text := strings.TrimSpace(stderr.keptText())
	if text == "" {
		return what
	}
	return what + ": " + shortenText(text)
}

// shortenText keeps the end of a text, because programs write the cause there.
func shortenText(text string) string {
	if len(text) <= messageLimit {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-messageLimit:], "")
}
