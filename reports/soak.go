package reports

import (
	_ "embed" // the page's template
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"handoff/chaos/soak"
)

// WriteSoakJSON writes what a soak came to, without the points of its curves.
func WriteSoakJSON(w io.Writer, r *soak.Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

//go:embed page/soak.html
var soakTemplate string

// WriteSoak writes the page of a soak: one file that needs nothing else, neither network nor server.
func WriteSoak(w io.Writer, r *soak.Result) error {
	t, err := template.New("soak").Parse(soakTemplate)
	if err != nil {
		return fmt.Errorf("parsing the template of a soak's page: %w", err)
	}
	return t.Execute(w, r)
}
