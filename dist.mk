.PHONY: dist dist-check

DIST ?= dist
dist: ## the release in dist/: archives, Debian packages, licences, SBOM, checksums
	./scripts/dist $(DIST)

dist-check: ## the release is built twice, in two directories, and the bytes compared
	./scripts/dist-check

.PHONY: chart chart-test
chart: ## renders the Helm chart for its tests, after a change
	cd internal/e2e/chart && GOFLAGS= go test -count 1 . -update

chart-test: ## the Helm chart, with Helm; the first time, it compiles for minutes
	cd internal/e2e/chart && GOFLAGS= go test -count 1 .
