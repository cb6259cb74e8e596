//go:build !linux

package cgroup

import (
	"errors"
	"os"
	"time"
)

var errNone = errors.New("control groups exist only on Linux")

// Parent holds the groups of one worker's runs.
type Parent struct{}

// Open fails: this system has no control groups.
func Open(string, Limits) (*Parent, error) { return nil, errNone }

// Missing is empty.
func (*Parent) Missing() map[string]string { return nil }

// New fails.
func (*Parent) New(string) (Group, error) { return "", errNone }

// Close does nothing.
func (*Parent) Close() error { return nil }

// Group is the directory of a run's control group.
type Group string

// Open fails.
func (Group) Open() (*os.File, error) { return nil, errNone }

// Kill does nothing.
func (Group) Kill(time.Duration) error { return nil }

// OutOfMemory is always 0.
func (Group) OutOfMemory() int { return 0 }

// Remove does nothing.
func (Group) Remove(time.Duration) error { return nil }
