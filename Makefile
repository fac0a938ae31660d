# What people run here. `make check` is everything that must be green; the other
# targets are its parts, and what needs a quiet machine.

GO ?= go
# Seconds for each fuzz target, kills for each kind of disk, and how many times
# `make soak` goes round.
FUZZ_SECONDS ?= 5
KILLS ?= 25
# Power cuts of each kind of file system under the engine, and under the whole binary.
CUTS ?= 60
BINARY_CUTS ?= 10
ROUNDS ?= 10
# Scripts that `make soak` explores the crashes of, for each way to make them.
SEEDS ?= 2000
# Spoiled requests that `make soak` sends.
STORM_FRAMES ?= 1000000
# For the tests of one package: those that explore crashes take minutes, more on a
# machine that has other things to do.
TEST_TIMEOUT ?= 30m

.PHONY: build test race lint giouring fuzz kill cut accept check tools bench share soak clean

build:
	$(GO) build -o bin/ringlog ./cmd/ringlog

test: ## unit and end-to-end tests; those with kcat need `make tools` once
	$(GO) test -timeout=$(TEST_TIMEOUT) ./...

race:
	$(GO) test -race -timeout=$(TEST_TIMEOUT) ./...

lint:
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test ./internal/lint

giouring: ## the library's ring, which only a build with this tag and flag has, through the tests of every disk
	$(GO) vet -tags giouring ./engine/disk/...
	$(GO) tool staticcheck -tags giouring ./engine/disk/...
	$(GO) test -tags giouring -ldflags=-checklinkname=0 ./engine/disk/giouring ./engine/disk/backend
	$(GO) build -tags giouring -ldflags=-checklinkname=0 -o bin/ringlog-giouring ./cmd/ringlog

fuzz:
	GO=$(GO) scripts/fuzz.sh $(FUZZ_SECONDS)

kill: ## the real binary, killed under load, with either disk, one partition and thousands
	$(GO) test ./internal/killtest -count=1 -v -run TestKill -args -kills=$(KILLS)

cut: ## the power of ext4 and xfs, cut under the engine and the real binary; as root on Linux, elsewhere it says what is missing
	$(GO) test ./internal/loopfs -count=1 -v
	$(GO) test ./internal/cuttest -count=1 -v -run 'Cut|Lying' -args -cuts=$(CUTS)
	$(GO) test ./internal/cuttest -count=1 -v -run 'Cut' -args -cuts=$(CUTS) -journal=1048576
	$(GO) test ./internal/killtest -count=1 -v -run 'TestCut|FullDisk|FailingDisk|ReadOnly' -args -cuts=$(BINARY_CUTS)

accept: tools ## what clients and operators see: kcat, the command line, what broke others, stops and kills
	$(GO) test -count=1 ./cmd/ringlog ./internal/blackbox ./internal/killtest

tools: ## installs by package name what the tests drive the broker with
	scripts/install-test-tools.sh

check: tools lint test race giouring fuzz kill cut

bench: ## figures count only on a quiet machine: see BENCHMARKS.md
	$(GO) test -run='^$$' -bench=. -benchmem ./...

share: ## the broker beside the ceiling, both at 200 MB/s by the clock, durable; figures count only on a quiet machine
	scripts/share-of-bare.sh durable recycled --rate 200000

soak: build ## ROUNDS times kills and power cuts, each from a new seed, STORM_FRAMES spoiled requests, and crashes of SEEDS scripts; as root also the disks on ext4 and xfs
	for round in $$(seq $(ROUNDS)); do \
	  $(GO) test ./internal/killtest -count=1 -run 'TestKill|TestCut' -timeout=60m -args -kills=$(KILLS) -cuts=$(CUTS) || exit 1; \
	done
	$(GO) test ./internal/hostiletest -count=1 -v -timeout=60m -run TestStorm -args -frames=$(STORM_FRAMES) -seed=$$(date +%s)
	$(GO) test ./engine/crashtest -count=1 -v -timeout=0 -run '^(TestEveryPair|TestRandom|TestCrashes|TestFlipped|TestScripts|TestCompaction)' \
	  -args -crash.first=$$(date +%s) -crash.seeds=$(SEEDS) -crash.exhaustive=16
	[ "$$(id -u)" != 0 ] || RINGLOG_SOAK=1 $(GO) test ./engine/disk/backend -count=1 # needs xfsprogs, e2fsprogs

clean:
	rm -rf bin
