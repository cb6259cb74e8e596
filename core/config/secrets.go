package config

import "strings"

// SecretFile returns the name of the configuration file if it set a password or token that is in force,
// otherwise "".
func (e *Effective) SecretFile() string {
	for _, l := range daemonLeaves() {
		o := e.origins[l.Path]
		if l.secret == "" || o.line == 0 {
			continue
		}
		if v := e.fieldValue(l).String(); l.secret == "all" && v != "" || strings.Contains(MaskURL(v), masked) {
			return o.name
		}
	}
	return ""
}
