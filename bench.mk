.PHONY: bench bench-postgres bench-smoke

bench: ## the server against a bare net/http handler: one table, in about six minutes
	go run ./bench/suite

bench-postgres: ## nodes on PostgreSQL against pgbench and the embedded store, in about five minutes
	go run ./bench/suite -postgres
	go test -vet=off -run '^$$' -bench Rotations -benchtime 5x ./internal/store/postgres

bench-smoke: ## both in a minute, for their checks; their figures mean nothing
	go run ./bench/suite -quick
	go run ./bench/suite -quick -postgres
