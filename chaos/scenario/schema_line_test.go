package scenario

import (
	"os"
	"path/filepath"
	"testing"
)

// From any folder, the line has the relative path of the schema; without a schema it is empty.
func TestSchemaLineFindsSchema(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"scenarios/regressions", "my/own/scenarios", "other"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"scenarios/schema.json", "other/schema.json"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for file, way := range map[string]string{
		"mine.yaml":                    "./scenarios/schema.json",
		"scenarios/mine.yaml":          "./schema.json",
		"scenarios/regressions/x.yaml": "../schema.json",
		"my/own/scenarios/mine.yaml":   "../../../scenarios/schema.json",
		"other/mine.yaml":              "../scenarios/schema.json", // other/schema.json is not the schema of scenarios
		"not/there/yet/mine.yaml":      "../../../scenarios/schema.json",
	} {
		if got, want := SchemaLine(filepath.Join(root, file)), "# yaml-language-server: $schema="+way+"\n"; got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	t.Chdir(root)
	if got := SchemaLine("mine.yaml"); got != "# yaml-language-server: $schema=./scenarios/schema.json\n" {
		t.Errorf("a relative path: %q", got)
	}
	if err := os.Remove(filepath.Join(root, "scenarios", "schema.json")); err != nil {
		t.Fatal(err)
	}
	if got := SchemaLine("mine.yaml"); got != "" {
		t.Errorf("without a schema: %q", got)
	}
}
