package scenario

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"handoff/core/config"
	"handoff/core/config/yamlfile"
)

// Schema returns the JSON Schema of a scenario file, for completion and checks in editors. It is made from
// the loader's shapes and the registries, and accepts every file that the loader accepts. Only the loader
// checks values that depend on the rest of the file, such as targets and times.
func Schema() []byte {
	s := topShape().Object()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://handoff.invalid/scenario.schema.json"
	s["title"] = "Handoff scenario"
	s["description"] = "A cluster, a workload, the faults that strike it, and what must be true afterwards."
	// encoding/json sorts the keys of maps, so equal shapes give equal bytes.
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("scenarios: the schema is plain maps, lists and texts: " + err.Error())
	}
	return append(out, '\n')
}

// configSchema lists every key of the configuration with its default under each profile.
func configSchema() yamlfile.Schema {
	root := yamlfile.Schema{"type": "object", "additionalProperties": false, "properties": yamlfile.Schema{}}
	for _, l := range configLeaves() {
		at := root
		parts := strings.Split(l.path, ".")
		for _, section := range parts[:len(parts)-1] {
			properties := at["properties"].(yamlfile.Schema)
			next, ok := properties[section].(yamlfile.Schema)
			if !ok {
				next = yamlfile.Schema{"type": "object", "additionalProperties": false, "properties": yamlfile.Schema{}}
				properties[section] = next
			}
			at = next
		}
		at["properties"].(yamlfile.Schema)[parts[len(parts)-1]] = l.valueSchema().With(l.describeDefaults())
	}
	return root
}

func (l leaf) valueSchema() yamlfile.Schema {
	switch l.path {
	case "executor.unclaimed":
		return yamlfile.Enum([]string{string(config.Fail), string(config.Reschedule)})
	case "message_queue.rabbitmq.queue_type":
		return yamlfile.Enum([]string{"quorum", "classic"})
	}
	if l.kind == reflect.TypeFor[time.Duration]() {
		return yamlfile.DurationSchema()
	}
	switch l.kind.Kind() {
	case reflect.Bool:
		return yamlfile.Schema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return yamlfile.Schema{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return yamlfile.Schema{"type": "number"}
	}
	return yamlfile.TextSchema()
}

// describeDefaults describes the default under each profile.
func (l leaf) describeDefaults() string {
	var texts []string
	for _, p := range config.Profiles() {
		c := config.Default(p)
		v := reflect.ValueOf(c).FieldByIndex(l.index).Interface()
		if d, ok := v.(time.Duration); ok {
			v = yamlfile.Short(d)
		}
		texts = append(texts, fmt.Sprintf("%v under %s", v, p))
	}
	return "default: " + strings.Join(texts, ", ")
}
