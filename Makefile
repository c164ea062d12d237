# Targets run go and nothing clever. Tests never need what "make tools" has not
# installed, and fail without it.
export CGO_ENABLED ?= 0
MODULE = github.com/mintage/mintage
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

.PHONY: build test tools lint unit race plain fuzz e2e docs
.PHONY: soak soak-beside soak-measured soak-e2e soak-race soak-mutations soak-release soak-fuzz

build: ## the binary, bin/mintage
	go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/mintage ./cmd/mintage

test: ## everything; what CI runs
	$(MAKE) --jobs 2 tools lint # the one waits for the network, the other compiles
	$(MAKE) unit fuzz e2e bench-smoke

# Whatever is built with other settings, SQLite is compiled again for, which
# takes a minute: there is one way with the race detector and one without. Without
# the paths of directories, a copy of the source is not compiled again: the tests of
# the documentation make one for each page that builds something.
# Without the profile (docs/decisions/0009), too: the program of "make soak" and
# "make bench" use it.
lint unit race plain fuzz e2e bench-smoke: export GOFLAGS += -pgo=off -trimpath

# The compiler and the tests collect garbage as seldom as a server does: an eighth of
# the processor time of a compilation.
tools lint unit race plain fuzz e2e: export GOGC ?= 400

tools: ## what the tests need beside Go: installs it where it is missing
	./scripts/tools

lint:
	./scripts/lint

# The race detector makes a test several times slower. It finds nothing where
# nothing runs at once: there, and in suites that drive what is tested with it
# elsewhere, only tests in which requests meet are run with it; "make soak" runs
# all with it.
ALONE = bench(/.*)?|cmd/mintage|examples/.*|internal|internal/(adminclient|cli|config|conformance|deployment|doctor|e2e|explain|grant|node|oauth|pages|show|store/moving)(/.*)?|internal/(metrics/page|server/apidoc)|packaging/.*
MEETING = Concurrent|Parallel|AtOnce|During|Together|Loser|TwoTabs|EverythingMoves
# These are long, and one after the other. What is at once in some of them is so
# in others, which are short.
LONG = RotationsDoNotGrow|SubscribersToTheFeed|CoversEveryToken|ForgetsWhatHasExpired|UpgradeThatFails|TokenOfAnUnknownKey|TenThousandAnswers
# The detector makes allocations of its own, which this counts.
COUNTS = CostsOtherRequestsNothing

# SQLite locks for itself, and argon2 shares its memory with nobody. Where the
# detector watched every byte that they touch, tests of stores and of passwords took
# twice as long.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=golang.org/x/crypto/argon2=-race=false

unit: ## the packages, with the race detector where requests meet
	$(MAKE) --jobs 2 race plain # the one waits for PostgreSQL, the other computes

# The tests of PostgreSQL take longest, and begin first.
race:
	CGO_ENABLED=1 go test $(RACE) -vet=off -p 3 -skip '$(LONG)|$(COUNTS)' ./internal/store/postgres $$(go list ./... | grep -vxE '$(MODULE)/($(ALONE)|internal/store/postgres)')
	CGO_ENABLED=1 go test $(RACE) -vet=off -run '$(MEETING)' ./internal/conformance ./internal/store/moving

plain:
	go test -vet=off -p 2 $$(go list ./... | grep -xE '$(MODULE)/($(ALONE))')
	go test -vet=off -run '$(LONG)|$(COUNTS)' ./internal/client ./internal/directory ./internal/issuer ./internal/store/sqlite ./resource

FUZZTIME ?= 2s
fuzz: ## each fuzz target for FUZZTIME
	./scripts/fuzz $(FUZZTIME)

e2e: export E2E_PROGRAM = $(CURDIR)/bin/e2e/mintage
e2e: ## the built binary, real clients, crashes and faults, the documentation
	go build -ldflags=-s -o bin/e2e/linked ./cmd/mintage
	cp -f bin/e2e/linked bin/e2e/mintage # in the page cache, a copy has larger pages: it starts faster
	go test -count 1 -vet=off -tags e2e ./internal/e2e/overload
	go test -count 1 -vet=off -tags e2e -timeout 20m -p 4 $$(go list -tags e2e ./internal/e2e/... | grep -v /overload$$)

docs: ## the generated pages
	go run ./internal/conformance/table
	go run ./internal/config/page
	go run ./internal/metrics/page
	go run ./internal/server/apidoc
	go run ./internal/cli/page

# The parts of the long form, each of which can be repeated alone. What measures
# has the machine for itself; of the others, some wait while others compute. A
# part that fails stops no other, and make names it.
soak: tools lint ## the long form: takes about an hour on two cores
	$(MAKE) --jobs 1 --keep-going soak-measured soak-beside

soak-beside:
	$(MAKE) --jobs 2 --keep-going --output-sync=target soak-e2e soak-race soak-mutations soak-release soak-fuzz

soak-measured soak-e2e soak-race soak-mutations soak-fuzz: export GOFLAGS += -pgo=off -trimpath
soak-measured soak-e2e soak-race: export SOAK = 1
soak-measured soak-e2e: export E2E_PROGRAM = $(CURDIR)/bin/e2e/mintage

MEASURED = overload|floods

soak-measured: ## overload and floods: goodput, and logins under attack
	go build -pgo=auto -o bin/e2e/mintage ./cmd/mintage
	go test -count 1 -vet=off -tags e2e -timeout 30m -p 1 -v $$(go list -tags e2e ./internal/e2e/... | grep -E '/($(MEASURED))$$')

soak-e2e: ## the rest of the end-to-end tests, with more rounds
	go build -pgo=auto -o bin/e2e/mintage ./cmd/mintage
	go test -count 1 -vet=off -tags e2e -timeout 1h -p 4 -v $$(go list -tags e2e ./internal/e2e/... | grep -vE '/($(MEASURED))$$')

soak-race: ## all packages with the race detector, three times
	CGO_ENABLED=1 go test $(RACE) -vet=off -count 3 -timeout 1h -skip '$(COUNTS)' ./...

soak-mutations: ## each safety taken out, which a test must notice
	go run ./internal/conformance/mutate

soak-release: ## the chart with Helm, and the release built twice
	$(MAKE) chart-test dist-check

soak-fuzz: ## each fuzz target for a minute, with guidance from all below it
	./scripts/fuzz 1m all

include bench.mk
include dist.mk
