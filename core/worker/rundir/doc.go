// Package rundir gives each run of an action its own directory, measures it and removes it. The content may
// be hostile, so the package works with any content.
//
// The runs' directories are inside a directory of their worker, which the worker locks (flock) while it
// lives. So the next worker can remove the leftovers of a killed one without touching those of living
// workers. The directories of workers belong to the workers' user, and are opened by their paths. Below them,
// removing and measuring use one name at a time, relative to an open directory, and follow no symbolic link.
// So an action gains nothing by replacing one of its directories with a link at any time.
package rundir
