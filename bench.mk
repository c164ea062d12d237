.PHONY: bench bench-smoke

bench: ## the server against a bare net/http handler: one table, in about six minutes
	go run ./internal/bench/suite

bench-smoke: ## the same in a minute, for its checks; its figures mean nothing
	go run ./internal/bench/suite -quick
