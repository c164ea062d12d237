# Targets run go and nothing clever. Tests never need what "make tools" has not
# installed, and fail without it.
export CGO_ENABLED ?= 0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: build test soak tools lint unit fuzz e2e docs

build: ## the binary, bin/mintage
	go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/mintage ./cmd/mintage

test: tools lint unit fuzz e2e bench-smoke ## everything; what CI runs

# The profile (docs/decisions/0009) changes how the compiler arranges code and
# costs a minute of compiling. "make soak" and "make bench" use it.
unit fuzz e2e bench-smoke: export GOFLAGS += -pgo=off

tools: ## what the tests need beside Go: installs it where it is missing
	./scripts/tools

lint:
	./scripts/lint

unit: ## the packages, with the race detector
	CGO_ENABLED=1 go test -race ./...

FUZZTIME ?= 5s
fuzz: ## each fuzz target for FUZZTIME
	./scripts/fuzz $(FUZZTIME)

e2e: ## the built binary, real clients, crashes and faults, the documentation
	go test -count 1 -tags e2e -timeout 20m ./internal/e2e/...

docs: ## the generated pages
	go run ./internal/conformance/table
	go run ./internal/config/page

soak: tools lint ## the long form: takes about an hour
	CGO_ENABLED=1 go test -race -count 3 ./...
	./scripts/fuzz 2m
	SOAK=1 go test -count 1 -tags e2e -timeout 2h -v ./internal/e2e/...
	go run ./internal/conformance/mutate

include bench.mk
