// Package rundir gives each run of an action its own directory, measures it and removes it. The
// content may be hostile, so it works with any content.
//
// The runs' directories are inside a directory of their worker, which the worker locks (flock)
// while it lives. So the next worker finds and removes the leftovers of a killed one, without
// touching those of living workers. Nothing here follows a symbolic link, or a path of more than
// one element below a directory that it has opened. So an action gains nothing by replacing a
// directory with a link at the wrong moment.
package rundir
