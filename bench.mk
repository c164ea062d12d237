.PHONY: bench bench-postgres bench-smoke

bench: ## the server against a bare net/http handler, shapes of clients, and operators' clients beside others: in about ten minutes
	go run ./bench/suite
	go run ./bench/suite -shapes
	go run ./bench/suite -shared

bench-postgres: ## nodes on PostgreSQL against pgbench and the embedded store, in about five minutes
	go run ./bench/suite -postgres
	go test -vet=off -run '^$$' -bench Rotations -benchtime 5x ./internal/store/postgres

bench-smoke: ## all of them in a minute, for their checks; their figures mean nothing
	go build -ldflags=-s -o bin/e2e/mintage ./cmd/mintage # as the target e2e has it
	go build -o bin/e2e/suite ./bench/suite
	bin/e2e/suite -quick -program bin/e2e/mintage
	bin/e2e/suite -quick -program bin/e2e/mintage -shapes
	bin/e2e/suite -quick -program bin/e2e/mintage -postgres
	bin/e2e/suite -quick -program bin/e2e/mintage -shared
