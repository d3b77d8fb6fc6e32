# pathlockd: `make help` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PKG     := github.com/pathlockd/pathlockd
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS := $(foreach p,daemon cli,-X $(PKG)/cmd/$(p).version=$(VERSION) -X $(PKG)/cmd/$(p).commit=$(COMMIT))
GOLANGCI := v2.15.0
ADDR    ?= 127.0.0.1:50050

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{ printf "  make %-15s %s\n", $$1, $$2 }'

.PHONY: build
build: ## bin/pathlockd (the server) and bin/pathlock (the command line)
	@mkdir -p bin
	go build -ldflags "$(LDFLAGS)" -o bin/ ./cmd/pathlockd ./cmd/pathlock

.PHONY: run
run: build ## build, then serve a single durable node on loopback (data in ./pathlockd-data)
	@exec bin/pathlockd --dev --native_listen=$(ADDR)

.PHONY: test
test: lint generated-check build fuzz-short deploy-check examples-tools race ## all that CI runs: linters, generated files, short fuzzing, every test

# What runs on one goroutine has no races, and takes five times as long under their detector.
ALONE := ^(TestSimulate|TestSimulateReplays|TestNewPaths)$$
# The Go client under hundreds of requests at once takes nine times as long; its other tests go the same ways with few of them.
LOADS := ^(TestRenewalsOfTheProgramStarveLocks|TestBeliefInSimulation|TestLooksBesideRenewals|TestLanesAtRandom|TestSharesInTurn|TestRenewalsBesideStuckUsersStarveARepeat|TestManyRenewalsBesideUsers|TestRiskWhileLooking|TestOrderAtRandom|TestGapsForLong|TestKeepersLeaveUsersSome|TestAPlaceOutlastsItsTime|TestRenewalsYieldBesideStuckKeepers|TestASlowHelloOfABusyConnection|TestQuestionsDoNotPile|TestRenewalsBesideStuckUsers|TestQuestionsAreCountedOut|TestAllOfManyPathsAtRisk|TestManyLocksAtRisk|TestGapsOfManyLeases|TestManyPathsAtRisk|TestAcquaintBesideManyLooks|TestAcquaintInTurn|TestAcquaintOfMany|TestSharesAreCounted|TestLocksBesideStuckLogs)$$
# bench/lab runs alone: it measures for how long nobody was served.
.PHONY: race
race: ## every test, under the race detector if it has goroutines; the conformance scenarios also with every request forwarded
	go test -timeout 45m -run '$(ALONE)' ./groups ./groups/replica
	go test -timeout 45m -run '$(LOADS)' ./clients/go
	go test -timeout 45m ./engine/naive
	PATHLOCKD_FORWARDED=1 go test -race -timeout 15m ./compat/conformance
	go test -race -timeout 15m ./bench/lab
	go test -race -timeout 45m -skip '$(ALONE)|$(LOADS)' $$(go list ./... | grep -v -e /engine/naive -e /bench/lab$$)

.PHONY: unit
unit: ## every test without the race detector: the quick look
	go test -timeout 10m ./...

.PHONY: deploy-check
deploy-check: ## what deploy/ ships, against the schemas of those who read it; a module of its own
	cd deploy/check && go vet . && go test -count=1 -timeout 15m .

.PHONY: examples-tools
examples-tools: ## what the examples need and this machine lacks, if anything (examples/install.sh)
	@examples/install.sh

.PHONY: examples
examples: examples-tools ## the examples, stock clients and pages, against a real daemon; PATHLOCKD_LONG=1 for the long mode
	go test -count=1 -timeout 10m -v ./examples

.PHONY: lint
lint: .tools/golangci-lint-$(GOLANGCI) ## the linters of .golangci.yml, at a pinned version
	go vet ./...
	.tools/golangci-lint-$(GOLANGCI) run --allow-parallel-runners ./...

.tools/golangci-lint-$(GOLANGCI):
	@mkdir -p .tools
	@echo "building golangci-lint $(GOLANGCI): once, some minutes"
	GOBIN=$(CURDIR)/.tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	@mv .tools/golangci-lint $@

.PHONY: generate
generate: ## write the generated pages and vectors anew
	go generate ./...

# What go generate writes, or writes parts of.
GENERATED := docs wire/testdata wire/PROTOCOL.md compat/pathlockdv1
.PHONY: generated-check
generated-check: ## fail when a generated file is not what its source makes
	@go generate ./...
	@if [ -d .git ] && ! git diff --quiet -- $(GENERATED); then \
		git --no-pager diff --stat -- $(GENERATED); \
		echo "generated files differ from their sources: run 'make generate' and commit"; exit 1; fi

# Each target of `make fuzz` is package/FuzzName; FUZZTIME is for each.
FUZZTIME ?= 5m
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (5m) each
	@for dir in wire trie loop groups/gossip groups/rows; do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9]+' $$dir/*_test.go | sed 's/func //'); do \
			echo "== $$dir $$f $(FUZZTIME)"; \
			go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) ./$$dir; \
		done; done

# By count: a fuzzer that is stopped by the clock may fail for being stopped.
.PHONY: fuzz-short
fuzz-short:
	@$(MAKE) --no-print-directory fuzz FUZZTIME=5000x

.PHONY: long
long: ## the long modes: millions of property steps, 20 kills under load, 10 000 connections, ten days of new paths, streams that stay open
	PATHLOCKD_LONG=1 go test -timeout 120m -v -run 'Property|Naive|ReapBudget|Replica|Crash|Kill|Connections|Promise|TestExamples|TestGrowAndShrink|TestNewPaths' ./engine/... ./groups ./groups/replica ./loop ./bench/... ./examples

.PHONY: cluster
cluster: build ## three nodes on this machine, with clients at work and a live view; Ctrl-C ends it (data in ./pathlockd-cluster)
	@go build -o bin/ ./bench/devcluster # go run would end with 1 when Ctrl-C ends what it runs
	@exec bin/devcluster --server bin/pathlockd $(ARGS)

.PHONY: demo
demo: build ## real processes on real files, with stops and kills; the files give the verdict
	go run ./bench/demo --server bin/pathlockd $(ARGS)

# Millions of virtual operations a minute; a seed that fails is shortened and told.
SEEDS ?= 500
FROM  ?= 1
TIME  ?=
.PHONY: simulate
simulate: ## the deterministic simulation of a cluster: SEEDS=500 runs from FROM=1, or TIME=1h of the processor; a failing seed replays exactly
	PATHLOCKD_SIM_SEEDS=$(SEEDS) PATHLOCKD_SIM_FROM=$(FROM) PATHLOCKD_SIM_TIME=$(TIME) go test -count=1 -timeout 0 -v -run '^TestSimulate$$' ./groups

# For hours: make torture ARGS='-duration 8h -seeds 16'. Other clusters: ARGS='-cluster processes'.
.PHONY: torture
torture: ## the fault laboratory: ten minutes of all faults on three nodes; ARGS says how long, which seed, what cluster
	go run ./bench/lab/torture -report docs/testing/torture.md $(ARGS)

.PHONY: planted
planted: ## bugs, planted one after the other: tests, simulation and fault laboratory must find theirs, and nothing without one
	go test -tags plant -count=1 -timeout 30m -run '^TestPlantedFor' ./engine/... ./groups ./groups/replica
	go test -tags plant -count=1 -timeout 90m -v -run '^TestPlanted$$' ./clients/go
	go test -tags plant -count=1 -timeout 180m -v -run '^TestSimulatePlanted$$' ./groups
	go test -tags plant -count=1 -timeout 60m -v -run '^TestPlanted$$' ./bench/lab $(ARGS)

.PHONY: bench-budgets
bench-budgets: ## measure every budget against its ceiling; some minutes on a quiet machine
	go run -ldflags "$(LDFLAGS)" ./bench budgets $(ARGS)

.PHONY: bench-faces
bench-faces: ## native, gRPC and JSON over each HTTP version, side by side; five minutes
	go run -ldflags "$(LDFLAGS)" ./bench faces $(ARGS)

.PHONY: bench-scale
bench-scale: ## simulated clusters of 5, 50 and 500 nodes that grow, fail and heal; ten minutes
	go run ./bench scale $(ARGS)

.PHONY: bench-cluster
bench-cluster: ## three nodes beside one: rates, forwarded requests, fail-over, idling; ten minutes
	go run -ldflags "$(LDFLAGS)" ./bench cluster $(ARGS)

.PHONY: bench-micro
bench-micro: ## the micro benchmarks beside the code
	go test -run '^$$' -bench . -benchmem ./wire ./trie ./engine
	go test -run '^$$' -bench LongestHold -benchtime 3x -timeout 30m ./groups/replica # how long anybody is held up, at most

.PHONY: clean
clean: ## remove what was built (never data)
	rm -rf bin .tools
