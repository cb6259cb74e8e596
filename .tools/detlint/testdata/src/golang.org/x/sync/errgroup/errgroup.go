// Package errgroup stands for the real one.
package errgroup

type Group struct{}
