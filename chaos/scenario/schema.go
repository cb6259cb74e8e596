package scenario

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"handoff/core/config"
)

// Schema is the JSON Schema of a scenario file, for completion and checks in editors. It is made
// of the shapes that the loader reads by and of the registries, and accepts everything that the
// loader accepts; what takes knowledge of the whole file (targets, times) only the loader refuses.
func Schema() []byte {
	s := topShape().object()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://handoff.invalid/scenario.schema.json"
	s["title"] = "Handoff scenario"
	s["description"] = "A cluster, a workload, the faults that strike it, and what must be true afterwards."
	// Maps are written in the order of their keys, so equal shapes give equal bytes.
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("scenarios: the schema is plain maps, lists and texts: " + err.Error())
	}
	return append(out, '\n')
}

// configSchema is every key of the configuration with its default under each profile.
func configSchema() schema {
	root := schema{"type": "object", "additionalProperties": false, "properties": schema{}}
	for _, l := range configLeaves() {
		at := root
		parts := strings.Split(l.path, ".")
		for _, section := range parts[:len(parts)-1] {
			properties := at["properties"].(schema)
			next, ok := properties[section].(schema)
			if !ok {
				next = schema{"type": "object", "additionalProperties": false, "properties": schema{}}
				properties[section] = next
			}
			at = next
		}
		at["properties"].(schema)[parts[len(parts)-1]] = l.schema().with(l.defaults())
	}
	return root
}

func (l leaf) schema() schema {
	switch l.path {
	case "executor.unclaimed":
		return enum([]string{string(config.Fail), string(config.Reschedule)})
	case "message_queue.rabbitmq.queue_type":
		return enum([]string{"quorum", "classic"})
	}
	if l.kind == reflect.TypeFor[time.Duration]() {
		return durationSchema()
	}
	switch l.kind.Kind() {
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return schema{"type": "number"}
	}
	return schema{"type": "string", "minLength": 1}
}

// defaults says what holds where the key is left out.
func (l leaf) defaults() string {
	var texts []string
	for _, p := range config.Profiles() {
		c := config.Default(p)
		v := reflect.ValueOf(c).FieldByIndex(l.index).Interface()
		if d, ok := v.(time.Duration); ok {
			v = short(d)
		}
		texts = append(texts, fmt.Sprintf("%v under %s", v, p))
	}
	return "default: " + strings.Join(texts, ", ")
}
