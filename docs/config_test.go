package docs

import (
	"go/ast"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"handoff/core/config"
)

// configTable lists every key with the defaults of both profiles and what the code's comment says of it.
func configTable(t *testing.T) string {
	hardened, documented := settings(t, effective(profileFlag(config.Hardened))), settings(t, effective(profileFlag(config.Documented)))
	meaning := keyMeanings(t)
	var rows [][]string
	for i, s := range hardened {
		if s.key == "profile" {
			continue
		}
		if meaning[s.key] == "" {
			t.Errorf("the key %s has no comment in core/config; write one above its field", s.key)
		}
		other := documented[i].value
		if other == s.value {
			other = ""
		}
		rows = append(rows, []string{code(s.key), shown(s.value), shown(other), meaning[s.key]})
	}
	return markdown([]string{"Key", "hardened", "documented, if it differs", "meaning"}, rows)
}

func shown(value string) string { return strings.Trim(value, "[]") }

var (
	references  = regexp.MustCompile(`\s*\((?:mutants?|defects?) [^)]*\)`)
	keptNames   = regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)
)

// keyMeanings are the comments of the fields that the keys are read into, with the fields called by their keys.
func keyMeanings(t *testing.T) map[string]string {
	t.Helper()
	types := map[string]*ast.StructType{}
	for _, f := range parseGo(t, "core/config") {
		for _, d := range f.Decls {
			declaration, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range declaration.Specs {
				if spec, ok := s.(*ast.TypeSpec); ok {
					if structure, ok := spec.Type.(*ast.StructType); ok && f.Name.Name == "config" {
						types[spec.Name.Name] = structure
					}
				}
			}
		}
	}
	meanings := map[string]string{}
	var visit func(s *ast.StructType, prefix string)
	visit = func(s *ast.StructType, prefix string) {
		keys := map[string]string{}
		for _, f := range s.Fields.List {
			for _, name := range f.Names {
				keys[name.Name] = key(f)
			}
		}
		comment := ""
		for _, f := range s.Fields.List {
			switch inner := f.Type.(type) {
			case *ast.StructType:
				visit(inner, prefix+key(f)+".")
				continue
			case *ast.Ident:
				if types[inner.Name] != nil {
					visit(types[inner.Name], prefix+key(f)+".")
					continue
				}
			}
			if own := f.Doc.Text(); own != "" || !strings.Contains(comment, f.Names[0].Name) {
				comment = own
			}
			said := keptNames.ReplaceAllStringFunc(plain(comment), func(word string) string {
				if name := keys[word]; name != "" {
					return code(name)
				}
				return word
			})
			for _, verb := range []string{" is ", " are "} {
				said = strings.TrimPrefix(said, code(key(f))+verb)
			}
			meanings[prefix+key(f)] = said
		}
	}
	visit(types["Config"], "")
	visit(types["Deployment"], "")
	return meanings
}

// plain is a comment on one line, without references that only readers of the code can follow.
func plain(comment string) string {
	return strings.Join(strings.Fields(references.ReplaceAllString(comment, "")), " ")
}

// key is what a field is called in YAML.
func key(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return ""
	}
	return reflect.StructTag(tag).Get("yaml")
}
