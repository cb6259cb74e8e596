// Detlint reports the ways by which a run under the deterministic kernel could come out
// differently the next time:
//
//	.tools/bin/detlint -test=false PACKAGE ...
//
// The packages that have to obey are listed in .ci/detlint. There is no list in here:
// what is named on the command line is checked.
//
// It is a command of its own and no go vet -vettool: go vet keeps the result of a package that it
// looked at only because another one imports it, which is empty, and gives that again when the
// package is asked for by name (seen with Go 1.26). A check must not pass because it did not run.
package main

import "golang.org/x/tools/go/analysis/singlechecker"

func main() { singlechecker.Main(Analyzer) }
