package scenario

import (
	"os"
	"path/filepath"
)

// SchemaLine returns the first line of a scenario file at path: a comment with the relative path of the
// schema, for completion in editors. It is empty if no folder above the file has scenarios/schema.json,
// because a wrong path is worse than none.
func SchemaLine(path string) string {
	from, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return ""
	}
	for dir := from; ; dir = filepath.Dir(dir) {
		for _, schema := range []string{filepath.Join(dir, "scenarios", "schema.json"), filepath.Join(dir, "schema.json")} {
			if filepath.Base(filepath.Dir(schema)) != "scenarios" {
				continue
			}
			if _, err := os.Stat(schema); err != nil {
				continue
			}
			way, err := filepath.Rel(from, schema)
			if err != nil {
				return ""
			}
			if way = filepath.ToSlash(way); way[0] != '.' {
				way = "./" + way
			}
			return "# yaml-language-server: $schema=" + way + "\n"
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}
