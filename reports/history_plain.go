package reports

import (
	"bytes"

	"github.com/go-json-experiment/json"
)

// readPlain decodes a line that WriteHistory may have written, three times as fast as decode does. A
// history has a million of them. It returns false for every wrong line, and for one with \u escapes,
// which stand for what two decoders may read differently: decode then reads the line again and says
// what is wrong. So readPlain must accept nothing that decode refuses, and must read the same; a fuzz
// test compares them.
func readPlain(text []byte, l *historyLine) bool {
	return !bytes.Contains(text, []byte(`\u`)) && json.Unmarshal(text, l, json.RejectUnknownMembers(true)) == nil
}
