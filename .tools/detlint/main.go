// Detlint reports the ways by which a run under the deterministic kernel could come out
// differently the next time. It is started by the go command, package by package:
//
//	go vet -vettool=.tools/bin/detlint PACKAGE ...
//
// The packages that have to obey stand in the Makefile (DETERMINISTIC). There is no list in here:
// what is named on the command line is checked.
package main

import "golang.org/x/tools/go/analysis/unitchecker"

func main() { unitchecker.Main(Analyzer) }
