package yamlfile

import "maps"

// Schema is a piece of JSON Schema.
type Schema map[string]any

// With returns a copy with a description; an empty one keeps the schema's own.
func (s Schema) With(about string) Schema {
	out := maps.Clone(s)
	if out == nil {
		out = Schema{}
	}
	if about != "" {
		out["description"] = about
	}
	return out
}

// The formats of values that are written as strings. The Reader's methods and the schemas share
// them.
const (
	DurationPattern = `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	SharePattern    = `^(100|[0-9]{1,2}(\.[0-9]{1,4})?) ?%$`
)

// Enum returns the schema of Choice: one of the names.
func Enum(names []string) Schema { return Schema{"enum": names} }

// Described returns an Enum from pairs of a name and a description; editors show the descriptions.
func Described(list [][2]string) Schema {
	var options []any
	for _, e := range list {
		options = append(options, Schema{"const": e[0], "description": e[1]})
	}
	return Schema{"oneOf": options}
}

// ListOf returns the schema of a list of any length.
func ListOf(item Schema) Schema {
	return Schema{"type": "array", "items": item}
}

// SomeOf returns the schema of a list that is not empty.
func SomeOf(item Schema) Schema {
	return Schema{"type": "array", "items": item, "minItems": 1}
}

// SetOf returns the schema of a list without duplicates, as Choices reads it.
func SetOf(item Schema) Schema {
	return Schema{"type": "array", "items": item, "uniqueItems": true}
}

// SomeSetOf returns the schema of a list without duplicates that is not empty.
func SomeSetOf(item Schema) Schema {
	return Schema{"type": "array", "items": item, "minItems": 1, "uniqueItems": true}
}

// MapOf returns the schema of a mapping, not empty, from names that the author chooses to values of one kind.
func MapOf(value Schema) Schema {
	return Schema{"type": "object", "additionalProperties": value, "minProperties": 1}
}

// TextSchema returns the schema of Text: a string that is not empty.
func TextSchema() Schema { return Schema{"type": "string", "minLength": 1} }

// StringSchema returns the schema of any string.
func StringSchema() Schema { return Schema{"type": "string"} }

// IntegerSchema returns the schema of Integer.
func IntegerSchema(least, most int64) Schema {
	return Schema{"type": "integer", "minimum": least, "maximum": most}
}

// DurationSchema returns the schema of Duration.
func DurationSchema() Schema {
	return Schema{"type": "string", "pattern": DurationPattern}
}

// SpanSchema returns the schema of Span.
func SpanSchema() Schema {
	return Schema{"type": "array", "items": DurationSchema(), "minItems": 2, "maxItems": 2}
}

// ShareSchema returns the schema of Share.
func ShareSchema() Schema {
	return Schema{"type": "string", "pattern": SharePattern}
}
