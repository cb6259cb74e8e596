//go:build race

package api

// raced says that the race detector makes everything ten times slower.
const raced = true
