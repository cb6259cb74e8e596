package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// onceValue is the value of a flag that may be given only once. Otherwise the last of two different values
// would win silently, and a run under two seeds would be a run under one.
type onceValue struct {
	pflag.Value
	flag  string
	given *string
}

// takeOnce makes a flag refuse a second, different value. Lists accept any number of values.
func takeOnce(f *pflag.Flag) {
	if _, list := f.Value.(pflag.SliceValue); list {
		return
	}
	f.Value = &onceValue{Value: f.Value, flag: f.Name}
}

// Set implements pflag.Value.
func (o *onceValue) Set(text string) error {
	if o.given != nil && *o.given != text {
		return &givenTwiceError{o.flag, *o.given, text}
	}
	o.given = &text
	return o.Value.Set(text)
}

// givenTwiceError is the error of a flag with two values.
type givenTwiceError struct{ flag, first, second string }

// Error implements error.
func (g *givenTwiceError) Error() string {
	return fmt.Sprintf("--%s is given twice, as %q and as %q: give it once, and run the command again for the other value", g.flag, g.first, g.second)
}
