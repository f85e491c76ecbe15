# `make` or `make help` lists the targets that say what they do.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# ENGINE is what to run on: `make demo ENGINE=mysql`, `make test ENGINE=mariadb`.
# Without it the demo and the lab take PostgreSQL, and the tests take all engines.
ENGINE :=
one := $(or $(ENGINE),postgres)
three := $(or $(ENGINE),postgres mysql mariadb)
all := $(or $(ENGINE),postgres postgres19 mysql mariadb)
# The job queue is in a PostgreSQL, whatever the engine.
queue := postgres

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Start real servers and the site on http://127.0.0.1:8080
	@scripts/install $(sort $(one) $(queue))
	@go build -o bin/app ./cmd/app
	@exec bin/app demo --engine $(one) $(ARGS)

.PHONY: lab
lab: ## Run the experiments: each bug beside its cure
	@scripts/install $(sort $(one) $(queue))
	@go build -o bin/app ./cmd/app
	@exec bin/app lab --engine $(one) $(ARGS)

.PHONY: torture
torture: ## Let servers fail under many sessions, on each engine, and check what those saw
	@scripts/install postgres $(three)
	@go build -o bin/app ./cmd/app
	@for engine in $(three); do \
	  bin/app torture --engine $$engine $(or $(ARGS),--operations 100000) || exit; \
	done

.PHONY: test
test: ## Run all tests on real servers, with the race detector
	@scripts/install $(sort $(all) $(queue)) compiler ps curl browser axe
	TMPDIR="$$(scripts/tmpdir)" TEST_ENGINES="$(all)" TEST_BROWSER=required go test -race -p 4 -timeout 30m ./...
	TMPDIR="$$(scripts/tmpdir)" TEST_ENGINES="$(all)" go -C bench test -timeout 30m ./...

.PHONY: bench
bench: ## Measure what routing costs and what it spares, into docs/bench
	@scripts/install postgres mysql mariadb
	@go build -o bin/app ./cmd/app
	@go -C bench build -o ../bin/bench .
	@exec bin/bench $(ARGS)

# IMAGE_BUILDER may name a program that makes the images which docker-compose.yml names
# by themselves, where no registry can be reached.
.PHONY: compose-test
compose-test: ## Start docker-compose.yml, each profile, and walk the sites
	@$(IMAGE_BUILDER)
	COMPOSE_TEST=1 go test -count=1 -timeout 40m -v ./compose

.PHONY: lint
lint: ## Check format, vet, staticcheck, module files, shell scripts
	@scripts/lint
