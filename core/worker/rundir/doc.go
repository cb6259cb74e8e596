// Package rundir gives each run of an action a directory of its own, measures it and removes it, whatever the action
// put there: the content is hostile.
//
// The runs' directories stand in one of their worker, which is locked (flock) while it lives. So the next worker finds
// what a killed one left, and removes it, without touching those of others. Nothing here follows a symbolic link or a
// path of more than one element below a directory that it has opened, so an action that replaces a directory by a
// link at the wrong moment leads it nowhere.
package rundir
