package config

import "strings"

// SecretFile returns the name of the configuration file if a password or token in it is in use,
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
