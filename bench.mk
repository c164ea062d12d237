.PHONY: bench bench-smoke

bench: ## the server against a bare net/http handler: one table, in about five minutes
	go run ./internal/bench/suite

bench-smoke: ## the same in half a minute, for its checks; its figures mean nothing
	go run ./internal/bench/suite -quick
