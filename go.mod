module handoff

go 1.26.0
