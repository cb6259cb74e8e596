// Developer tools stand in a module of their own, so that what they need does not raise the
// versions that the product is built with. The dot in the folder's name keeps ./... away from it.
module handoff/tools

go 1.26.0

require golang.org/x/tools v0.52.0

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
