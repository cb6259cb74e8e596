package scenario

// Nearest is the entry of allowed that got was probably meant to be, or "": for whoever else
// refuses a name.
func Nearest(got string, allowed []string) string { return nearest(got, allowed) }
