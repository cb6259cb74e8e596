package config

import "strings"

// SecretFile is the configuration file if a password or token in force comes from there; empty if none does.
func (e *Effective) SecretFile() string {
	for _, l := range daemonLeaves() {
		o := e.origins[l.Path]
		if l.secret == "" || o.line == 0 {
			continue
		}
		if v := e.field(l).String(); l.secret == "all" && v != "" || strings.Contains(MaskURL(v), masked) {
			return o.name
		}
	}
	return ""
}
