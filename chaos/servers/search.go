package servers

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"

	"handoff/chaos/servers/containers"
	"handoff/core/host/without"
)

// WithoutList reads HANDOFF_WITHOUT.
func WithoutList() (map[string]bool, error) {
	out, err := without.Declared()
	if err != nil {
		return nil, &AddressError{Without, err.Error()}
	}
	return out, nil
}

type postgresBinaries struct{ initdb, postgres string }

type rabbitBinaries struct{ server, ctl, epmd string }

// places are the directories, or patterns of directories, to search before PATH. On Debian the servers are
// not in PATH, and the programs in PATH are wrappers that change the user.
type places struct {
	postgres []string
	rabbit   []string
	erlang   []string
	path     string
	engine   func(context.Context) (*containers.Engine, error)
}

func usualPlaces() *places {
	return &places{
		postgres: []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"},
		rabbit:   []string{"/usr/lib/rabbitmq/bin", "/opt/homebrew/opt/rabbitmq/sbin", "/usr/local/opt/rabbitmq/sbin"},
		erlang:   []string{"/usr/lib/erlang/erts-*/bin", "/opt/homebrew/opt/erlang/lib/erlang/erts-*/bin", "/usr/local/opt/erlang/lib/erlang/erts-*/bin"},
		path:     os.Getenv("PATH"),
		engine:   containers.Find,
	}
}

// findPostgres returns the newest PostgreSQL with both programs, or the places that it searched.
func (p *places) findPostgres() (*postgresBinaries, []string) {
	for _, dir := range p.searchDirs(p.postgres) {
		b := &postgresBinaries{initdb: filepath.Join(dir, "initdb"), postgres: filepath.Join(dir, "postgres")}
		if isExecutable(b.initdb) && isExecutable(b.postgres) {
			return b, nil
		}
	}
	return nil, p.searchedPlaces("initdb and postgres", p.postgres)
}

// findRabbit returns RabbitMQ's server, rabbitmqctl and Erlang's port mapper, or the places that it searched.
func (p *places) findRabbit() (*rabbitBinaries, []string) {
	for _, dir := range p.searchDirs(p.rabbit) {
		b := &rabbitBinaries{server: filepath.Join(dir, "rabbitmq-server"), ctl: filepath.Join(dir, "rabbitmqctl")}
		if !isExecutable(b.server) || !isExecutable(b.ctl) {
			continue
		}
		for _, erl := range p.searchDirs(p.erlang) {
			if b.epmd = filepath.Join(erl, "epmd"); isExecutable(b.epmd) {
				return b, nil
			}
		}
		return nil, p.searchedPlaces("epmd (of Erlang; RabbitMQ itself is in "+dir+")", p.erlang)
	}
	return nil, p.searchedPlaces("rabbitmq-server and rabbitmqctl", p.rabbit)
}

// searchDirs expands patterns, the newest version first, and appends PATH.
func (p *places) searchDirs(patterns []string) []string {
	var out []string
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // only a malformed pattern fails
		sort.SliceStable(found, func(i, j int) bool { return versionIn(found[i]) > versionIn(found[j]) })
		out = append(out, found...)
	}
	for _, dir := range filepath.SplitList(p.path) {
		if filepath.IsAbs(dir) { // a relative entry could run programs from the current directory
			out = append(out, dir)
		}
	}
	return out
}

func (p *places) searchedPlaces(what string, patterns []string) []string {
	var out []string
	for _, pattern := range patterns {
		out = append(out, what+" in "+pattern)
	}
	path := p.path
	if path == "" {
		path = "empty"
	}
	return append(out, what+" in PATH ("+path+")")
}

// versionPattern matches a version; its group is a number with a fraction.
var versionPattern = regexp.MustCompile(`(\d+(?:\.\d+)?)[\d.]*`)

// versionIn returns the last version in a path as a decimal number, by which 9.6 is older than 15.
func versionIn(path string) float64 {
	best := 0.0
	for _, found := range versionPattern.FindAllStringSubmatch(path, -1) {
		best, _ = strconv.ParseFloat(found[1], 64) // digits
	}
	return best
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
