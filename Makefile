# Handoff. `make` alone lists what there is.
#
# Only `test` and `lint` load developer tools; everything else needs Go and make.

# The packages that run under the deterministic kernel; detlint keeps out of them whatever would
# make the same seed come out differently the next time. Not in the list: the real store, broker
# and daemon host, the API, and what drives many kernels at once (sim/explore). A package that
# moves fails the check rather than dropping out of it.
DETERMINISTIC := \
	./core/executor ./core/worker ./core/broker ./core/store \
	./sim ./sim/kernel ./sim/simhost ./sim/simnet ./sim/simstore ./sim/simbroker ./sim/simcalls ./chaos/selftest/mutant \
	./chaos/hook ./chaos/fault ./chaos/history ./chaos/invariant ./chaos/oracle ./chaos/alert ./core/store/metered ./chaos/run ./chaos/run/product

# The race detector costs about ten times the time, so it goes where goroutines meet: the daemons'
# host and runner, what the core shares between tasks, the kernel's hand-over between coroutines, and
# executors and workers as goroutines (sim/stress). The parallel sweeps are in `determinism`, which runs every
# scenario under the detector.
RACE := ./core/host/... ./core/worker/... ./core/broker ./core/api ./core/config ./chaos/invariant ./sim/kernel ./sim/stress

# The demonstration: a seed in which the scenario shows the mutant plainly. And what else `run` is told.
SCENARIO  := network-partition
SEED      := 4
MUTANT    := unguarded-claim
RUN_FLAGS :=

# How many live runs go on at a time (chaos-live).
LIVE_PARALLEL := 8

# How long one benchmark of the simulated world runs, and what the benchmark of the daemons is told
# (cd chaos/selftest/bench && go run . --help).
BENCHTIME   := 1s
BENCH_FLAGS :=

# How long each fuzz target runs. Long enough to try what the seeds and their neighbours hold; a hunt takes
# FUZZTIME=10m.
FUZZTIME := 1s

# Pinned, so that a new linter release can't turn an unchanged tree red. The version is part of
# the file's name: raising it here installs the new one.
GOLANGCI_VERSION := v2.15.0
GOLANGCI         := .tools/bin/golangci-lint-$(GOLANGCI_VERSION)

.PHONY: print-live-first tools packages test-all guarded newer reached check drawn help attack servers build chaos demo test lint bench fmt vet race detlint actionlint golangci cross determinism chaos-binary chaos-live live-named live-named-run live-order soak containers contracts mutants live-mutants mutated conformance fuzz bench-daemons bench-sim bench-beside bench-causes bench-why occasions shards night-run night-mutants night-merge night-merge-mutants night-merge-source mutants-source mutants-sql sure stress preempt playground playground-hashes

## Targets:
##   chaos        build the simulator and run the whole scenario library, report in reports/out: at most three minutes on two
##                processors, half a minute of it the first build
##   chaos-live   the library on real PostgreSQL, RabbitMQ and daemons, side by side with the simulator;
##                both profiles with LIVE_PROFILES=
##   live-named   live-order under one profile: in make test
##   soak         real daemons at the highest rate that the machine holds, every part killed, paused and cut off, judged as it goes:
##                SOAK_FOR=60m SOAK_SEED=7 SOAK_FLAGS='--rate 20'; page in reports/out/soak
##   live-order   crash-after-heartbeat, network-partition, ttl-race, dropped-status-messages on real servers, both profiles
##   mutants      every mutant: what kills it, which scenario kills which, and every shrunk file
##   mutants-source  300 mutants of the core's own source, and the page of the score, reports/out/score.md: goes on where it stopped; SOURCE_SEEDS=2
##                plain and SOURCE_VARIED=2 varied runs of every scenario and profile
##   mutants-sql  60 mutants of the store's SQL, on a private PostgreSQL: into the same page
##   conformance  the store's model against PostgreSQL: 100,000 random commands, every pair of writes (an hour)
##   newer        the servers of this machine and of newer Debian releases (PostgreSQL 17 and 18, RabbitMQ 4.0 and 4.3), each
##                release in a chroot that is made where it is missing: contract suites, 100,000 random commands, the five
##                scenarios of the first design and those of queues that hang, live; results into the conformance page. Root,
##                on Debian, hours: NEWER=trixie takes one release, HANDOFF_CONFORMANCE_STEPS=10000 fewer commands
##   drawn        20,000 drawn clusters on every time scale: DRAWN_SEEDS, DRAWN_CHECKS clusters for each seed
##   shards       the library at 40 seeds in four shares, merged: byte for byte what one run writes? also with a share repeated
##   night-run    one share of a night's sweep: SHARD=3/16; night-mutants, night-merge, night-merge-mutants and
##                night-merge-source are the rest
##                (docs/deploy)
##   stress       executors and workers as goroutines under the race detector, for ten minutes: STRESS=1h
##   preempt      the library with tasks switched inside critical sections, and the mutants of locks: PREEMPT_SEEDS=10
##   reached      which statements of executor and worker no simulated run comes to, and why: REACHED_SEEDS=60 REACHED_VARIED=20
##   live-mutants mutants planted into real daemons: does the live world find them?
##   containers   what takes a container engine: servers in containers, scenarios in those of docker-compose.chaos.yaml
##   attack       the tests that docs/attacks.md names, in full
##   contracts    what stores and brokers promise, also on servers that you name: HANDOFF_CHAOS_POSTGRES_IMAGE=postgres:17
##   demo         one mutant caught red-handed, then the same seed without it
##   check        while you work, a minute: format, the quick tests, every scenario once; starts no servers
##   test         what has to hold for every change, on real servers: eight minutes on two processors, more where it installs them.
##                HANDOFF_PATIENCE=3 makes every wait three times as long
##   test-all     everything in full, for the night: no step begins after three hours; called again, it goes on where it stopped
##   guarded      two seeds of every scenario on a core that panics where a lock is missing: in make test
##   servers      find or install PostgreSQL and RabbitMQ, which the tests start privately
##   lint         vet and the linters: detlint, golangci-lint, actionlint for the workflow
##   cross        vet for macOS and Windows, where the harness and the simulator run too
##   bench        the daemons on real servers in turn with River: processor time, rates, latencies; then the simulated world
##   bench-causes what led to a violation, measured over all mutants
##   bench-beside the simulated world's processor time for each step and execution beside that of an older commit:
##                BEFORE=8ac9cdc ROUNDS=11
##   bench-why    every mutant's first failing run explained: do chaos diff and chaos why find what they should? WHY=lost-cancel,no-brake
##                asks it of two
##   occasions    how often each rule is judged beside an older commit, over the runs that both have:
##                BEFORE=2e471141~1, before a dispatch took one statement
##   fuzz         a short run of every fuzz target: messages, configuration, actions, API, scenarios
##   build        all three binaries, into bin/; then `bin/chaos up` runs the whole system
##   fmt          format the code as the linters want it
##   determinism  every scenario again on one processor and under the race detector: same histories?
##   help         this list
##
## Variables: SCENARIO=network-partition SEED=4 MUTANT=unguarded-claim RUN_FLAGS='--seeds 50' BENCHTIME=1s FUZZTIME=2s
help:
	@sed -n 's/^## \{0,1\}//p' Makefile

# The whole program and the daemons.
build:
	go build -o bin/ ./cmd/chaos ./cmd/executor ./cmd/worker

# The simulator alone builds in half the time of the whole program. Where the whole one was built before, it stays.
SIMULATOR := $(if $(wildcard bin/executor),,-tags simulator)

chaos-binary:
	go build $(SIMULATOR) -o bin/chaos ./cmd/chaos

chaos:
	@echo "building bin/chaos: half a minute the first time"
	@$(MAKE) --no-print-directory chaos-binary
	bin/chaos run --out reports/out $(RUN_FLAGS)
	@echo "Next: make chaos-live (the same scenarios on real servers and daemons)"

# The core in it is guarded (sim/woven): who touches what a mutex guards without it panics, which fails the run. Exit 3 is no
# failure: so few seeds need not reach every rare situation.
GUARDED       := reports/out/guarded
GUARDED_SEEDS := 2

guarded:
	@go run ./sim/weave/write guard $(GUARDED)
	@go build -overlay $(GUARDED)/overlay.json -tags simulator -o bin/chaos-guarded ./cmd/chaos
	@bin/chaos-guarded run --quiet --varied=never --seeds $(GUARDED_SEEDS) --out $(GUARDED)/run > $(GUARDED)/said.txt 2>&1 || [ $$? -eq 3 ] || { cat $(GUARDED)/said.txt; exit 1; }
	@echo "guarded: $(GUARDED_SEEDS) seeds of every scenario touch nothing without its lock, and break no invariant"

# Real servers and daemons, at a fifth of real time: the least that the default heartbeats allow.
# A run waits more than it computes. LIVE_PROFILES= runs both profiles, in twice the time.
LIVE_PROFILES := --profile hardened

# The five scenarios of the first design, and the four for which a harness was asked.
LIVE_FIRST := worker-stops-mid-execution worker-never-picks-up all-workers-down worker-stops-gracefully message-expires-in-queue
LIVE_ORDER := crash-after-heartbeat network-partition ttl-race dropped-status-messages

chaos-live: build servers
	bin/chaos run --world live $(LIVE_PROFILES) --parallel $(LIVE_PARALLEL) --agree --out reports/out/live $(RUN_FLAGS)

live-named: build servers
	$(MAKE) live-named-run

# How long, by which plan, and what else the soak is told (bin/chaos help soak).
SOAK_FOR   := 10m
SOAK_SEED  := 1
SOAK_FLAGS :=

soak: build servers
	bin/chaos soak --for $(SOAK_FOR) --seed $(SOAK_SEED) --out reports/out/soak $(SOAK_FLAGS)

# A machine that was said to be without them runs nothing here, and says so.
live-order: build servers
	$(MAKE) live-named-run LIVE_NAMED='$(LIVE_ORDER)' LIVE_NAMED_PROFILES= LIVE_NAMED_OUT=reports/out/live-order

# make test has the four; the five of the first design are a night's.
LIVE_NAMED          := $(LIVE_ORDER)
LIVE_NAMED_PROFILES := --profile hardened
LIVE_NAMED_OUT      := reports/out/live-named
LIVE_NAMED_SCALE    := 0.2

print-live-first:
	@echo $(LIVE_FIRST)

live-named-run:
	@case "$$HANDOFF_WITHOUT" in *postgres*|*rabbitmq*) echo "live-named: not run: HANDOFF_WITHOUT=$$HANDOFF_WITHOUT";; *) \
	bin/chaos run $(LIVE_NAMED) --world live $(LIVE_NAMED_PROFILES) --parallel 4 --time-scale $(LIVE_NAMED_SCALE) --out $(LIVE_NAMED_OUT);; esac

# What takes a container engine: servers and whole systems in containers, their faults, and that nothing of them is left.
# The image of the daemons is built. Without an engine the tests say so and the scenarios exit with 4.
containers: build
	go test -vet=off -count 1 -timeout 30m -run Container ./chaos/servers ./chaos/live
	bin/chaos run worker-stops-mid-execution network-partition --world live --target compose --profile hardened --out reports/out/containers

# What the models promise of a database and a broker, on the servers of this machine or on those that are named
# (HANDOFF_CHAOS_POSTGRES_IMAGE, HANDOFF_CHAOS_RABBITMQ_IMAGE, docs/running.md).
contracts: servers
	go test -vet=off -count 1 -timeout 15m -run 'Test(Contract|Sequences|MigrationsUpAndDown)$$' ./chaos/selftest/conformance/postgrestest ./chaos/selftest/conformance/rabbitmqtest

# The tests that docs/attacks.md names, in full. make test-all has them too, with 5,000 messages of garbage.
attack: servers
	HANDOFF_TESTS=all HANDOFF_TEST_GARBAGE=200000 go test -vet=off -count 1 -timeout 30m -p 1 ./core/... ./cmd/... ./chaos/audit ./chaos/live/cluster ./chaos/selftest/conformance/postgrestest ./docs \
		-run "^($$(grep -oE '\b(Test|Fuzz)[A-Za-z]+' docs/attacks.md | sort -u | paste -sd '|'))$$"

# Daemons with a switch for known defects; the ones that ship have none.
mutated:
	go build -tags mutant -o bin/mutated/ ./cmd/executor ./cmd/worker

# What the ordinary tests do on a sample: every mutant shrunk, every injector missed under every seed, and the
# table of which scenario kills which mutant, in reports/out/mutants.
mutants: build bin/measure
	bin/chaos mutants
	bin/chaos run --seeds 50 --mutants 10 --out reports/out/mutants
	bin/measure --sample 60 $(SOURCE_SIZE) --unit --again --out reports/out/mutants/source.json
	HANDOFF_TESTS=all go test -count 1 -timeout 60m -v -run 'Shrunk|Missing|Killed|Vacuous' ./sim/explore

# What no simulated run comes to can be wrong without anything showing it. Reasons stand in .tools/reached/reasons.yaml. The
# program itself is instrumented too, or it writes no profile.
REACHED       := reports/out/reached
# Reasons hold for so many seeds: with more of them, some of what has a reason may be reached after all.
REACHED_SEEDS  := 60
REACHED_VARIED := 20
REACHED_RUN    := GOCOVERDIR=$(REACHED)/counts bin/chaos-covered run --quiet --out $(REACHED)/run

reached:
	cd .tools && go build -o bin/ ./reached
	go build -cover -coverpkg=./core/executor,./core/worker,./cmd/chaos -o bin/chaos-covered ./cmd/chaos
	@rm -rf $(REACHED) && mkdir -p $(REACHED)/counts
	$(REACHED_RUN) --seeds $(REACHED_SEEDS) --varied=never > $(REACHED)/run.txt || [ $$? -eq 3 ] || { cat $(REACHED)/run.txt; exit 1; }
	$(REACHED_RUN) --seeds $(REACHED_VARIED) --varied > $(REACHED)/varied.txt || [ $$? -eq 3 ] || { cat $(REACHED)/varied.txt; exit 1; }
	go tool covdata textfmt -i $(REACHED)/counts -o $(REACHED)/profile.txt
	.tools/bin/reached -profile $(REACHED)/profile.txt -reasons .tools/reached/reasons.yaml core/executor core/worker

# The library in four shares and in one run; then the second share again, all of them in another order, one given twice.
SHARDS      := reports/out/shards
SHARD_SEEDS := 40
SHARD_RUN   := bin/chaos run --quiet --seeds $(SHARD_SEEDS)
# A few mutants of the source, in two shares and in one run.
SHARD_SOURCE := bin/measure --unit --seeds 1 --varied-seeds 1 --only core/executor/children.go

shards: build bin/measure
	@rm -rf $(SHARDS) && mkdir -p $(SHARDS)
	$(SHARD_RUN) --out $(SHARDS)/one > $(SHARDS)/one.txt || [ $$? -eq 3 ]
	@for i in 1 2 3 4; do $(SHARD_RUN) --shard $$i/4 --out $(SHARDS)/$$i > $(SHARDS)/$$i.txt || exit 1; done
	bin/chaos merge $(SHARDS)/1 $(SHARDS)/2 $(SHARDS)/3 $(SHARDS)/4 --out $(SHARDS)/merged > $(SHARDS)/merged.txt || [ $$? -eq 3 ]
	diff -r --exclude=timing.json $(SHARDS)/one $(SHARDS)/merged
	$(SHARD_RUN) --shard 2/4 --out $(SHARDS)/again > $(SHARDS)/again.txt
	bin/chaos merge $(SHARDS)/again $(SHARDS)/4 $(SHARDS)/2 $(SHARDS)/3 $(SHARDS)/1 $(SHARDS)/3/shard.jsonl --out $(SHARDS)/merged-again > $(SHARDS)/merged-again.txt || [ $$? -eq 3 ]
	diff -r --exclude=timing.json $(SHARDS)/one $(SHARDS)/merged-again
	$(SHARD_SOURCE) --out $(SHARDS)/source-one.json
	@for i in 1 2; do $(SHARD_SOURCE) --shard $$i/2 --out $(SHARDS)/source/$$i.json || exit 1; done
	bin/measure --out $(SHARDS)/source-merged.json $(SHARDS)/source/1.json $(SHARDS)/source/2.json
	cmp $(SHARDS)/source-one.json $(SHARDS)/source-merged.json
	@echo "shards: four shares of the library at $(SHARD_SEEDS) seeds merge to what one run writes, byte for byte: $(SHARDS)/merged"

# A night over many machines (docs/deploy). This is how large it is: a million runs and a few, 4,500 seeds of each scenario
# and profile; all planted mutants, and NIGHT_MUTANTS of the core's own source. Each machine does night-run and night-mutants
# with a SHARD of its own; the shares are then brought to one.
NIGHT_SEEDS := 3600
NIGHT_MUTANTS := 300
SHARD := 1/1

night-run: build
	bin/chaos run --seeds $(NIGHT_SEEDS) --shard $(SHARD) --out reports/out/night/share

night-mutants: build bin/measure
	bin/measure --sample $(NIGHT_MUTANTS) $(SOURCE_SIZE) --unit --shard $(SHARD) --out reports/out/night/source/source.json
	bin/chaos mutants --shard $(SHARD) --report reports/out/night/mutants

night-merge: chaos-binary
	bin/chaos merge reports/out/night/shares --partial --out reports/out/night/merged

night-merge-mutants: build
	bin/chaos merge reports/out/night/mutant-shares --partial --out reports/out/night/merged-mutants

# The page is only written of all shares; nothing is run for it.
night-merge-source: bin/measure
	bin/measure --out reports/out/night/merged-source/source.json \
		--table reports/out/night/merged-source/score.md reports/out/night/source-shares/*/source.json

# What share of small mistakes in the core's own source the library kills: the whole sample. Interrupted, it goes on with the
# next call. A mutant that survives takes fifteen seconds of one processor. `make mutants` runs the first fifth, in ten minutes.
SOURCE_SEEDS  := 2
SOURCE_VARIED := 2
SOURCE_SIZE   := --seeds $(SOURCE_SEEDS) --varied-seeds $(SOURCE_VARIED)

# It is made anew each time: go build knows what has changed.
.PHONY: bin/measure
bin/measure:
	go build -o bin/measure ./chaos/selftest/mutant/source/measure

mutants-source: bin/measure
	bin/measure $(SOURCE_SIZE) --unit --table reports/out/score.md --out reports/out/source.json

# The mutants of the store's SQL, into the same results and the same page.
mutants-sql: servers bin/measure
	bin/measure --sql --table reports/out/score.md --out reports/out/source.json

# The store's model against PostgreSQL. The ordinary tests take a sample; this runs 100,000 random commands, and every
# pair of writes at every lock and between their statements.
conformance:
	HANDOFF_CONFORMANCE_STEPS=100000 go test -count 1 -timeout 60m -run TestSequences ./chaos/selftest/conformance/postgrestest
	HANDOFF_CONFORMANCE_PAIRS=all go test -count 1 -timeout 2h -v -run 'TestPairs$$' ./chaos/selftest/conformance/postgrestest

# The servers of this machine, and of Debian's next releases. All run, whatever an earlier one found.
NEWER      := here trixie forky
NEWER_LIVE := $(LIVE_FIRST) one-queue-stuck dead-lettering-stands-still

newer: build
	@red=; for release in $(NEWER); do .ci/newer all $$release $(NEWER_LIVE) || red="$$red $$release"; done; \
	if [ -n "$$red" ]; then echo "newer: red:$$red"; exit 1; fi

# What one task at a time can't show: real goroutines under the race detector. make race has some seconds of it.
STRESS := 10m

stress:
	HANDOFF_STRESS=$(STRESS) go test -vet=off -race -count 1 -timeout 0 -v ./sim/stress

# A program whose core is woven (sim/woven): its tasks are switched inside critical sections. What it finds it shows again
# with bin/chaos-preempt replay. Exit 3 is no failure: so few seeds need not reach every rare situation. Nothing is varied:
# an interruption has to be far below every timeout, and some of those that are drawn are half a second.
WOVEN         := reports/out/woven
PREEMPT_SEEDS := 10

preempt:
	go run ./sim/weave/write preempt $(WOVEN)
	go build -tags preempt -overlay $(WOVEN)/overlay.json -o bin/chaos-preempt ./cmd/chaos
	go test -vet=off -tags preempt ./sim/woven
	bin/chaos-preempt run --seeds $(PREEMPT_SEEDS) --varied=never --out reports/out/preempt || [ $$? -eq 3 ]
	HANDOFF_PREEMPT=yes go test -vet=off -count 1 -timeout 20m -run Killed ./sim/weave

live-mutants: build mutated servers
	bin/chaos mutants --world live --parallel $(LIVE_PARALLEL)

# The simulator as a page for browsers, a folder for any static host: docs/playground.md.
PLAYGROUND := reports/out/playground

playground:
	go run ./cmd/playground $(PLAYGROUND)

# As many runs in WebAssembly as here; make test compares sixty. It needs node.
PLAYGROUND_RUNS := 1000

playground-hashes:
	HANDOFF_PLAYGROUND_RUNS=$(PLAYGROUND_RUNS) go test -vet=off -count 1 -timeout 60m -v -run 'TestTheBrowsersRunsAreTheSame$$' ./cmd/playground

# Both halves run whatever they find, and only then is judged: red has to be red (exit 1), and not
# "did not come up" (exit 4), and green has to be green.
demo: chaos-binary
	@echo "1. $(SCENARIO) with a mutant planted: $(MUTANT). A worker takes the message of an execution that"
	@echo "   runs elsewhere for its own claim, and runs it a second time. This run has to fail."
	@echo
	@code=0; \
	bin/chaos run $(SCENARIO) --profile hardened --mutant $(MUTANT) --seed $(SEED) --out reports/out/demo || code=$$?; \
	if [ $$code -ne 1 ]; then \
		echo "demo: the mutant was not caught (exit $$code, expected 1)"; exit 1; \
	fi
	@echo
	@echo "2. The same scenario and the same seed, the mutant left out. This run has to pass."
	@echo
	@code=0; \
	bin/chaos run $(SCENARIO) --profile hardened --seed $(SEED) --out reports/out/demo-fixed || code=$$?; \
	if [ $$code -ne 0 ]; then \
		echo "demo: the run without the mutant did not pass (exit $$code, expected 0)"; exit 1; \
	fi
	@echo
	@echo "What you saw: the same run of one cluster, twice. With the mutant one execution ran on two workers"
	@echo "at a time; the first lines above name the invariant, the execution and the command that shows it"
	@echo "again. Without the mutant the same seed is clean."
	@echo "The story of that execution: reports/out/demo/index.html"

# The three tiers (docs/testing.md). check: what most changes break, without servers. test: what has to hold for every change,
# on real servers. test-all: everything in full, for the night.
#
# go test builds and runs this many packages at a time. Those with servers mostly wait for them, so that is more than there
# are processors.
TEST_PARALLEL := 4
# A package that takes this long hangs: go test takes no number from HANDOFF_PATIENCE, so this one does.
TEST_TIMEOUT  := $(shell awk -v p="$$HANDOFF_PATIENCE" 'BEGIN {print int(60 * (p > 1 ? p : 1))}')m
RUNTESTS      := .tools/bin/runtests

# What check leaves to test: packages whose tests are about servers or processes. All others are in it, so a new package is too;
# a package that moves fails the check rather than dropping out of it.
CHECK_LATER := ./chaos/selftest/conformance/postgrestest ./chaos/selftest/conformance/rabbitmqtest ./chaos/live/cluster ./chaos/servers ./cmd/executor ./core/worker/subprocess

tools:
	@cd .tools && go build -o bin/ ./runtests gotest.tools/gotestsum

check: tools
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "not formatted (make fmt):"; echo "$$files"; exit 1; fi
	@later=$$(go list $(CHECK_LATER)) && packages=$$(go list ./... | grep -vxF "$$later") && $(RUNTESTS) -- -short -vet=off $$packages
	@echo "check: make test has more: servers, daemons, samples of what is drawn"

# The longest packages first. Tests are built without vet: it reads every dependency anew, and make lint has it.
TEST_FIRST := ./chaos/selftest/conformance/postgrestest ./chaos/selftest/conformance/rabbitmqtest ./chaos/live/cluster ./cmd/chaos ./sim/explore

# The four scenarios wait more than they compute, so they run beside the packages, at half of real time: what a slow machine does
# late is late by less of a lease then.
test: tools build
	@mkdir -p reports/out/test; said=reports/out/test/live.txt; \
	$(MAKE) --no-print-directory live-named-run LIVE_NAMED_SCALE=0.5 > $$said 2>&1 & live=$$!; \
	trap 'kill $$live 2>/dev/null' EXIT INT TERM; red=0; \
	bin/chaos servers -- $(MAKE) --no-print-directory packages || red=$$?; \
	echo "waiting for the scenarios on real servers: $$said"; wait $$live || red=$$?; cat $$said; exit $$red
	@cd .tools && go test -vet=off ./...
	@cd chaos/selftest/bench && go test -vet=off .
	$(MAKE) --no-print-directory guarded detlint

packages:
	@first=$$(go list $(TEST_FIRST)) && others=$$(go list ./... | grep -vxF "$$first") && \
	$(RUNTESTS) -events reports/out/test/events.json -- -vet=off -p $(TEST_PARALLEL) -timeout $(TEST_TIMEOUT) $$first $$others

# Everything in full. It goes on where it stopped, as long as the commit is the same: .ci/test-all --help.
test-all:
	.ci/test-all

vet:
	go vet ./...

# The tests start private servers of their own; this finds them, or installs them on Debian as root.
servers: build
	bin/chaos servers

# The large sample of drawn clusters; make test draws a hundred. A seed that fails does not stop the others; the last
# line names all that failed.
DRAWN_SEEDS  := $(shell seq 20261122 20261141)
DRAWN_CHECKS := 1000

drawn:
	@mkdir -p reports/out && go test -vet=off -c -o reports/out/drawn.test ./sim
	@red=; for seed in $(DRAWN_SEEDS); do \
		(cd sim && ../reports/out/drawn.test -test.run 'TestDrawnClustersOnEveryTimeScale$$' -test.timeout 0 \
			-rapid.seed=$$seed -rapid.checks=$(DRAWN_CHECKS) -rapid.shrinktime=10s -rapid.nofailfile) \
			> reports/out/drawn-$$seed.txt 2>&1 || red="$$red $$seed"; \
		grep -m 1 -E 'failed after|^ok|^PASS' reports/out/drawn-$$seed.txt | sed "s/^/seed $$seed: /"; \
	done; \
	if [ -n "$$red" ]; then echo "drawn: red seeds:$$red; see reports/out/drawn-SEED.txt"; exit 1; fi

race:
	go test -vet=off -race -short $(RACE)

# The product is developed on Linux; this keeps it building elsewhere.
cross:
	GOOS=darwin go build ./...
	GOOS=windows go build ./...

lint: vet detlint actionlint golangci

# The version is in .tools/go.mod. What a machine has beside it does not decide: scripts in the workflow are short.
actionlint:
	cd .tools && go build -o bin/actionlint github.com/rhysd/actionlint/cmd/actionlint
	.tools/bin/actionlint -shellcheck= -pyflakes= .github/workflows/*.yaml docs/deploy/github-*.yaml

detlint:
	cd .tools && go build -o bin/detlint ./detlint
	.tools/bin/detlint -test=false $(DETERMINISTIC)

golangci: $(GOLANGCI)
	$(GOLANGCI) run ./...
	cd .tools && ../$(GOLANGCI) run ./...
	cd chaos/selftest/bench && ../../../$(GOLANGCI) run ./...

fmt: $(GOLANGCI)
	$(GOLANGCI) fmt ./...

$(GOLANGCI):
	GOBIN=$(CURDIR)/.tools/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv .tools/bin/golangci-lint $@

# Every target that there is, so that a new one is not forgotten. The engine takes one target at a time. It has a race at
# the end of its time: now and then a target fails with "context deadline exceeded" although no input failed. Such a target
# runs once more. Any other failure, and any that names an input, counts.
fuzz:
	@grep -rlE '^func Fuzz' --include='*_test.go' --exclude-dir=.tools . | sort | while read -r file; do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9]*)\(.*/\1/p' "$$file"); do \
			echo "fuzz $$(dirname "$$file") $$target"; \
			once() { go test -vet=off -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null 2>&1; }; \
			said=$$(once) || { echo "$$said"; \
				echo "$$said" | grep -q 'context deadline exceeded' && ! echo "$$said" | grep -q 'Failing input' || exit 1; \
				echo "Its time was up in the middle of an input, and none failed: once more."; said=$$(once) || { echo "$$said"; exit 1; }; }; \
			echo "$$said"; \
		done; \
	done

bench: bench-daemons bench-sim

# What led to a violation, measured over all mutants: two minutes.
bench-causes:
	HANDOFF_TESTS=all go test ./sim/explore -count 1 -v -run 'TestCausesContainTheMutantsActs'

# A module of its own: what it compares with stays out of the product's module graph.
bench-daemons: build
	cd chaos/selftest/bench && go run . $(BENCH_FLAGS)

# -run '^$$' matches no test, so that only benchmarks run. One core, and the collector as cmd/chaos sets it.
bench-sim:
	GOGC=400 go test -cpu 1 -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./sim/...

WHY := all

bench-why:
	HANDOFF_WHY='$(WHY)' go test -vet=off -count 1 -timeout 180m -v -run 'TestExplanationsOfMutants$$' ./sim/explore

# Steps a second of processor time before and now: the benchmarks of this tree on the code of an older commit and on this one,
# in turn, so that what else the machine does strikes both. Take the median of the ratios: single ones differ by a tenth.
BEFORE      := HEAD~1
ROUNDS      := 11
BESIDE      := Named|BusyLoad
BESIDE_TREE := bin/before

bench-beside:
	@git worktree remove --force $(BESIDE_TREE) 2>/dev/null || true # of a comparison that failed
	git worktree add --force --detach $(BESIDE_TREE) $(BEFORE)
	cp sim/bench_test.go $(BESIDE_TREE)/sim/
	go test -c -o bin/now.test ./sim
	cd $(BESIDE_TREE) && go test -c -o ../before.test ./sim
	for round in $$(seq $(ROUNDS)); do for which in before now; do \
		(cd sim && GOGC=400 ../bin/$$which.test -test.cpu 1 -test.run '^$$' -test.bench '$(BESIDE)' -test.benchtime 1x) | \
			awk -v which=$$which '/^Benchmark/ {for (i = 1; i <= NF; i++) if ($$i ~ /^(step|execution)s\/cpu_s$$/) print $$1, substr($$i, 1, length($$i) - 7), which, $$(i-1)}'; \
	done; done > bin/beside.txt
	@awk '$$2 == "step" {n[$$1, $$3]++; keys[$$1]} \
		END {for (key in keys) if (n[key, "before"] != $(ROUNDS) || n[key, "now"] != $(ROUNDS)) {bad = 1; \
			print key ": " n[key, "before"] + 0 " of $(ROUNDS) rounds of $(BEFORE) and " n[key, "now"] + 0 " of this tree gave a figure. See why: cd sim && ../bin/before.test -test.run NONE -test.bench " substr(key, 10) ", or now.test"}; \
			if (!NR) {bad = 1; print "no benchmark of either tree is named $(BESIDE)"} exit bad}' bin/beside.txt >&2
	@awk '{key = $$1 " " $$2} $$3 == "before" {before[key] = $$4; next} {print key, before[key] / $$4}' bin/beside.txt | sort -k1,2 -k3,3n | \
		awk '{key = $$1 ": processor time for each " $$2; n[key]++; all[key, n[key]] = $$3} END {for (key in n) print key ", now / before, median of", n[key] ":", all[key, int((n[key] + 1) / 2)]}' | sort
	git worktree remove --force $(BESIDE_TREE)

occasions:
	@mkdir -p reports/out
	git show $(BEFORE):sim/explore/testdata/histories.txt > reports/out/occasions.txt
	HANDOFF_OCCASIONS=$(abspath reports/out/occasions.txt) go test -vet=off -count 1 -v -run 'TestRulesAreJudgedAsOftenAsBefore$$' ./sim/explore

# A run is a function of scenario and seed. So neither the number of processors, nor a second
# process, nor the race detector (which needs a C compiler, and ten times the time) may change a hash.
# Every seed of every scenario is run three times: twice in one process, and in another on one
# processor; one also under the race detector, in one profile, which has to give the committed histories. Exit 3 is no
# failure here: so few seeds need not reach every rare situation. hashes.txt is for other machines, whose processors and
# systems differ: a line for each scenario and profile.
DETERMINISM       := reports/out/determinism
DETERMINISM_SEEDS := 1
DETERMINISM_RUN   := run --quiet --out $(DETERMINISM)/last

determinism: chaos-binary
	@mkdir -p $(DETERMINISM)
	bin/chaos $(DETERMINISM_RUN) --seeds $(DETERMINISM_SEEDS) --check-determinism $(DETERMINISM_SEEDS) --json $(DETERMINISM)/many.json || [ $$? -eq 3 ]
	GOMAXPROCS=1 bin/chaos $(DETERMINISM_RUN) --seeds $(DETERMINISM_SEEDS) --json $(DETERMINISM)/one.json || [ $$? -eq 3 ]
	cmp $(DETERMINISM)/many.json $(DETERMINISM)/one.json
	go test -vet=off -race -short -count 1 -run '^TestHistories$$' ./sim/explore
	awk -F'"' '/"name":/ {name = $$4} /"profile":/ {profile = $$4} /"history_hash":/ {print name, profile, $$4}' \
		$(DETERMINISM)/many.json > $(DETERMINISM)/hashes.txt
	[ -s $(DETERMINISM)/hashes.txt ]
	@echo "determinism: seeds 1 to $(DETERMINISM_SEEDS) of every scenario gave the same histories each time: $(DETERMINISM)/hashes.txt"
