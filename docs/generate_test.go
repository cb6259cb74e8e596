package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"handoff/core/config"
)

// effective is the configuration in force with these settings of the command line, and nothing else.
func effective(flags ...config.Flag) *config.Effective {
	e, _ := config.Load(config.Input{Flags: flags})
	return e
}

// profileFlag chooses a profile.
func profileFlag(p config.Profile) config.Flag {
	return config.Flag{Name: "--profile", Path: "profile", Value: string(p)}
}

// setting is one key of a configuration, with its value as it is printed.
type setting struct{ key, value string }

// settings are all keys of a configuration, of both daemons, in the order in which they are printed.
func settings(t *testing.T, e *config.Effective) []setting {
	t.Helper()
	var printed bytes.Buffer
	e.Print(&printed)
	return flatten(t, printed.Bytes())
}

// flatten reads a YAML file of sections and keys.
func flatten(t *testing.T, source []byte) (list []setting) {
	t.Helper()
	var file yaml.Node
	if err := yaml.Unmarshal(source, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Content) == 0 {
		return nil
	}
	var visit func(n *yaml.Node, prefix string)
	visit = func(n *yaml.Node, prefix string) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := prefix+n.Content[i].Value, n.Content[i+1]
			switch value.Kind {
			case yaml.MappingNode:
				visit(value, key+".")
			case yaml.SequenceNode:
				var items []string
				for _, item := range value.Content {
					items = append(items, item.Value)
				}
				list = append(list, setting{key, "[" + strings.Join(items, ", ") + "]"})
			default:
				list = append(list, setting{key, value.Value})
			}
		}
	}
	visit(file.Content[0], "")
	return list
}

// configurationKeys are the keys of both daemons.
func configurationKeys(t *testing.T) (keys []string) {
	t.Helper()
	for _, s := range settings(t, effective()) {
		keys = append(keys, s.key)
	}
	return keys
}

var (
	createTable = regexp.MustCompile(`(?ms)^create table (?:if not exists )?(\w+) \(\n(.*?)\n\)`)
	alterTable  = regexp.MustCompile(`(?s)\nalter table (\w+)([^;]*);`)
	addColumn   = regexp.MustCompile(`add column (?:if not exists )?(\w+)`)
	sqlColumn   = regexp.MustCompile(`^    "?(\w+)"?\s+\w`)
	upPart      = regexp.MustCompile(`(?s)-- \+goose Up(.*?)(-- \+goose Down|$)`)
)

// upSQL is what the migrations do on their way up, in their order.
func upSQL(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "migrations", "*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	var all strings.Builder
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range upPart.FindAllStringSubmatch(string(source), -1) {
			all.WriteString(part[1])
		}
	}
	return all.String()
}

// tableColumns are the columns of every table of the schema, in their order.
func tableColumns(t *testing.T) map[string][]string {
	t.Helper()
	columns, sql := map[string][]string{}, upSQL(t)
	for _, table := range createTable.FindAllStringSubmatch(sql, -1) {
		for line := range strings.Lines(table[2]) {
			m := sqlColumn.FindStringSubmatch(line)
			if len(m) > 1 && m[1] != "constraint" && m[1] != "primary" && m[1] != "unique" && m[1] != "check" {
				columns[table[1]] = append(columns[table[1]], m[1])
			}
		}
	}
	for _, altered := range alterTable.FindAllStringSubmatch(sql, -1) {
		name := altered[1]
		if name == "execution_record" {
			name = "execution" // the view, which shows every column of the record
		}
		for _, c := range addColumn.FindAllStringSubmatch(altered[2], -1) {
			columns[name] = append(columns[name], c[1])
		}
	}
	return columns
}
