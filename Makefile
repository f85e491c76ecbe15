# `make` or `make help` lists the targets that say what they do.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# ENGINES are what `make test` must find; a missing one fails it.
ENGINES := postgres

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Start real servers and the site on http://127.0.0.1:8080
	@scripts/install postgres
	@go build -o bin/app ./cmd/app
	@exec bin/app demo $(ARGS)

.PHONY: lab
lab: ## Run the experiments: each bug beside its cure
	@scripts/install postgres
	@go build -o bin/app ./cmd/app
	@exec bin/app lab $(ARGS)

.PHONY: test
test: ## Run all tests on real servers, with the race detector
	@scripts/install postgres compiler ps
	TEST_ENGINES=$(ENGINES) go test -race ./...

.PHONY: lint
lint: ## Check format, vet, staticcheck, module files, shell scripts
	@scripts/lint
