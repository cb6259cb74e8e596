# Handoff. `make` alone lists what there is; longer recipes, checks and measurements are scripts in .ci.
#
# Only `test` and `lint` load developer tools; everything else needs Go and make.

# The demonstration: a seed in which the scenario shows the mutant plainly. And further flags of `run`.
SCENARIO  := network-partition
SEED      := 4
MUTANT    := unguarded-claim
RUN_FLAGS :=

# How long one benchmark of the simulated world runs, and further flags of the benchmark of the daemons
# (cd chaos/selftest/bench && go run . --help).
BENCHTIME   := 1s
BENCH_FLAGS :=

# The race detector takes ten times the time, so it goes where goroutines meet; .ci/determinism runs the parallel sweeps under it.
RACE := ./core/host/... ./core/worker/... ./core/broker ./core/api ./core/config ./chaos/invariant ./sim/kernel ./sim/stress

# What check leaves to test: packages whose tests are about servers or processes. A package that moves fails the check.
CHECK_LATER := ./chaos/selftest/conformance/postgrestest ./chaos/selftest/conformance/rabbitmqtest ./chaos/live/cluster ./chaos/servers ./cmd/executor ./core/worker/subprocess

# Pinned, so that a new linter release can't turn an unchanged tree red. Raising it here installs the new one.
GOLANGCI_VERSION := v2.15.0
GOLANGCI         := .tools/bin/golangci-lint-$(GOLANGCI_VERSION)

.PHONY: help build chaos-binary servers chaos demo check test test-all chaos-live live-order containers mutants determinism race lint fmt cross bench

## Targets:
##   chaos        build the simulator and run the whole scenario library, report in reports/out: at most three minutes on two
##                processors, half a minute of it the first build. RUN_FLAGS='--seeds 50' goes to bin/chaos run
##   demo         one mutant caught red-handed, then the same seed without it: SCENARIO=, SEED= and MUTANT= choose others
##   check        while you work, a minute: format, the quick tests, every scenario once; starts no servers
##   test         what has to hold for every change, on real servers: eight minutes on two processors, more where it installs them.
##                HANDOFF_PATIENCE=3 makes every wait three times as long
##   test-all     everything in full, for the night: no step begins after three hours; called again, it continues where it stopped
##   build        all three binaries, into bin/; then `bin/chaos up` runs the whole system
##   chaos-binary bin/chaos alone, without the live world where the rest was never built
##   servers      find or install PostgreSQL and RabbitMQ, which the tests start privately
##   chaos-live   the library on real PostgreSQL, RabbitMQ and daemons, side by side with the simulator, under the profile hardened
##   live-order   crash-after-heartbeat, network-partition, ttl-race, dropped-status-messages on real servers, both profiles
##   containers   servers in containers, scenarios in those of docker-compose.chaos.yaml; needs a container engine
##   mutants      every mutant: what kills it, which scenario kills which, and every shrunk file
##   determinism  every scenario again on one processor and under the race detector: same histories?
##   race         the packages in which goroutines meet, under the race detector
##   lint         vet and the linters: detlint, golangci-lint, actionlint for the workflow
##   fmt          format the code as the linters want it
##   cross        vet for macOS and Windows, where the harness and the simulator run too
##   bench        the daemons on real servers in turn with River: processor time, rates, latencies; then the simulated world
##   help         this list
##
## Longer checks and measurements; each says at its top what it does and takes:
help:
	@sed -n 's/^## \{0,1\}//p' Makefile
	@for script in .ci/*; do awk -v script=$$script 'NR == 2 {sub(/^# /, ""); sub(/[.:;] .*|[.:;]$$/, ""); printf "  %-18s %s\n", script, $$0}' $$script; done

build:
	go build -o bin/ ./cmd/chaos ./cmd/executor ./cmd/worker

# The simulator alone builds in half the time of the whole program. Where the whole one was built before, it stays.
chaos-binary:
	go build $(if $(wildcard bin/executor),,-tags simulator) -o bin/chaos ./cmd/chaos

chaos:
	@echo "building bin/chaos: half a minute the first time"
	@$(MAKE) --no-print-directory chaos-binary
	bin/chaos run --out reports/out $(RUN_FLAGS)
	@echo "Next: make chaos-live (the same scenarios on real servers and daemons)"

# Both halves run whatever they find, and only then is judged: red has to be red (exit 1), and not
# "did not come up" (exit 4), and green has to be green.
demo: chaos-binary
	@echo "1. $(SCENARIO) with a mutant planted: $(MUTANT). A worker takes the message of an execution that"
	@echo "   runs elsewhere for its own claim, and runs it a second time. This run has to fail."
	@echo
	@code=0; \
	bin/chaos run $(SCENARIO) --profile hardened --mutant $(MUTANT) --seed $(SEED) --out reports/out/demo || code=$$?; \
	if [ $$code -ne 1 ]; then echo "demo: the mutant was not caught (exit $$code, expected 1)"; exit 1; fi
	@printf '\n2. The same scenario and the same seed, the mutant left out. This run has to pass.\n\n'
	@bin/chaos run $(SCENARIO) --profile hardened --seed $(SEED) --out reports/out/demo-fixed || \
		{ echo "demo: the run without the mutant did not pass (exit $$?, expected 0)"; exit 1; }
	@echo
	@echo "You saw one run of one cluster twice. With the mutant one execution ran on two workers at a time;"
	@echo "the first lines above name the invariant, the execution and the command that repeats the run."
	@echo "Without the mutant the same seed is clean."
	@echo "The story of that execution: reports/out/demo/index.html"

# The tests start private servers of their own; this finds them, or installs them on Debian as root.
servers: build
	bin/chaos servers

check:
	@cd .tools && go build -o bin/ ./runtests gotest.tools/gotestsum
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "not formatted (make fmt):"; echo "$$files"; exit 1; fi
	@later=$$(go list $(CHECK_LATER)) && packages=$$(go list ./... | grep -vxF "$$later") && .tools/bin/runtests -- -short -vet=off $$packages
	@echo "check: make test has more: servers, daemons, samples of what is drawn"

test: build
	.ci/test

test-all:
	.ci/test-all

# At a fifth of real time, the least that the default heartbeats allow.
chaos-live: build servers
	bin/chaos run --world live --profile hardened --parallel 8 --agree --out reports/out/live $(RUN_FLAGS)

live-order: build servers
	.ci/live order

# Of what is started in containers, nothing is left. The image of the daemons is built. Without an engine the tests say so and the
# scenarios exit with 4.
containers: build
	go test -vet=off -count 1 -timeout 30m -run Container ./chaos/servers ./chaos/live
	bin/chaos run worker-stops-mid-execution network-partition --world live --target compose --profile hardened --out reports/out/containers

mutants:
	.ci/mutants

determinism:
	.ci/determinism

race:
	go test -vet=off -race -short $(RACE)

cross:
	GOOS=darwin go build ./...
	GOOS=windows go build ./...

# actionlint's version is in .tools/go.mod. Other linters on the machine do not decide: scripts in the workflow are short.
lint: $(GOLANGCI)
	go vet ./...
	.ci/detlint
	cd .tools && go build -o bin/actionlint github.com/rhysd/actionlint/cmd/actionlint
	.tools/bin/actionlint -shellcheck= -pyflakes= .github/workflows/*.yaml docs/deploy/github-*.yaml
	$(GOLANGCI) run ./...
	cd .tools && ../$(GOLANGCI) run ./...
	cd chaos/selftest/bench && ../../../$(GOLANGCI) run ./...

fmt: $(GOLANGCI)
	$(GOLANGCI) fmt ./...

$(GOLANGCI):
	GOBIN=$(CURDIR)/.tools/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv .tools/bin/golangci-lint $@

# The daemons' benchmark is a module of its own, so that River stays out of go.mod. The simulator's runs on one core, with the
# garbage collector as cmd/chaos sets it.
bench: build
	cd chaos/selftest/bench && go run . $(BENCH_FLAGS)
	GOGC=400 go test -cpu 1 -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./sim/...
