// Package docs holds the pages that a running system shows: a playbook for every alert. An executor serves
// them at /playbooks/NAME, the runbook_url of the rule file. A page thus opens from the alert and belongs to
// the running version.
package docs

import (
	"embed"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
)

//go:embed playbooks/*.md
var playbooks embed.FS

// PlaybookPath is the HTTP path of an executor's playbooks. The name of an alert follows it.
const PlaybookPath = "/playbooks/"

// PlaybookNames lists the alerts that have a playbook, sorted.
func PlaybookNames() []string {
	entries, err := playbooks.ReadDir("playbooks")
	if err != nil {
		panic(err) // the files are embedded in the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".md"))
	}
	slices.Sort(names)
	return names
}

// Playbook returns the text of an alert's playbook, in Markdown; false if there is none.
func Playbook(name string) (string, bool) {
	if !slices.Contains(PlaybookNames(), name) {
		return "", false
	}
	text, err := playbooks.ReadFile("playbooks/" + name + ".md")
	return string(text), err == nil
}

// PlaybookHandler serves PlaybookPath and the paths below it. /playbooks/NAME returns the page as plain text,
// also with the extension .md, which links between the pages have. /playbooks/ lists the names. Any other
// path returns 404 and the names.
func PlaybookHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			fmt.Fprintf(w, "%s answers GET and HEAD.\n", r.URL.Path)
			return
		}
		name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, PlaybookPath), ".md")
		text, ok := Playbook(name)
		if !ok {
			text = "Playbooks, one for each alert:\n"
			for _, known := range PlaybookNames() {
				text += "  " + path.Join(PlaybookPath, known) + "\n"
			}
			if name != "" {
				w.WriteHeader(http.StatusNotFound)
				text = fmt.Sprintf("There is no playbook %q. ", name) + text
			}
		}
		fmt.Fprint(w, text)
	})
}
