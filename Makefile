# Everything lives in .venv and the user's cache directory; no root, no GPU needed.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
UV_VERSION := 0.13.9
VENV := .venv
BIN := $(VENV)/bin
export UV_PROJECT_ENVIRONMENT := $(VENV)
export UV_PYTHON_DOWNLOADS := never

.DEFAULT_GOAL := help
.PHONY: help
help: ## show this help
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

$(VENV)/.ready: pyproject.toml uv.lock
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer with the venv module found; install it (Debian, Ubuntu: apt install python3 python3-venv) or name one: make PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(BIN)/uv sync --quiet --frozen --inexact
	@touch $@

.PHONY: setup
setup: $(VENV)/.ready ## create the environment in .venv

.PHONY: demo
demo: setup ## the whole product on a simulated cluster: KEEP=1 to try things by hand afterwards
	@$(BIN)/mig-manager demo $(if $(KEEP),--keep)

.PHONY: test
test: lint types contracts test-unit test-cluster ## everything that CI checks

# Parts whose branches must be covered to 95 percent by the tests that need no cluster.
COVERED := geometry planner gpu sim/model controller agent

.PHONY: test-unit
test-unit: setup ## the tests that need no cluster, with coverage
	@$(BIN)/pytest -n auto -m "not cluster and not node" --cov --cov-report=
	@for part in $(COVERED); do \
		printf '%-12s ' "$$part"; \
		$(BIN)/coverage report --include="mig_manager/$$part/*" --format=total --fail-under=95 || \
			{ echo "error: less than 95 percent of mig_manager/$$part is covered: see $(BIN)/coverage report" >&2; exit 1; }; \
	done

.PHONY: test-cluster
test-cluster: control-plane ## the tests on a real Kubernetes API server
	@$(BIN)/pytest -n 2 -m cluster

.PHONY: test-library
test-library: setup ## the tests of the simulated libnvidia-ml.so.1: they need a C compiler, some also Go
	@$(BIN)/pytest -m library

.PHONY: test-node
test-node: control-plane ## the tests on real nodes: kubelet and containerd in namespaces (root on Linux)
	@$(BIN)/python -m tests.node

.PHONY: control-plane
control-plane: setup ## have etcd, API server and the rest ready: found, cached or built (10 minutes, once)
	@$(BIN)/python -m mig_manager.sim.controlplane

.PHONY: bench
bench: control-plane ## what planning, applying, agent and controller cost, against their budgets (5 minutes)
	@$(BIN)/python -m tests.bench.planner
	@$(BIN)/python -m tests.bench.cluster

.PHONY: chaos
chaos: control-plane ## kill the agent at every point of every story, and let every call fail in every way (an hour; EVERY=10: a tenth of the points)
	@CHAOS=$(or $(EVERY),1) $(BIN)/python -m tests.chaos -n auto

.PHONY: soak
soak: control-plane ## 20 simulated nodes under random edits, kills, reboots and drifts: promises hold, nothing grows (20 minutes; NODES=, ROUNDS=, SEED=)
	@$(BIN)/python -m tests.soak $(if $(NODES),--nodes $(NODES)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED))

.PHONY: fuzz
fuzz: setup ## input that nobody means, at random: ten times what the tests try, or TIMES=100 (half an hour)
	@FUZZ=$(or $(TIMES),10) $(BIN)/pytest -n auto tests/fuzz

.PHONY: mutants
mutants: setup ## change every guard of a slice in use, and see a test fail each time (an hour)
	@$(BIN)/uv sync --quiet --frozen --inexact --group mutants
	@$(BIN)/python -m tests.mutants

.PHONY: lint
lint: setup ## style: ruff, all rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

.PHONY: types
types: setup ## types: mypy strict on package and tests
	@$(BIN)/mypy

.PHONY: contracts
contracts: setup ## import contracts: which package may know which
	@$(BIN)/lint-imports --no-cache

.PHONY: docs
docs: setup ## generate docs/profiles.md, its pictures, docs/cli.md and docs/simulated-nvml.md
	@$(BIN)/python -m mig_manager.cli.docs docs

.PHONY: format
format: setup ## rewrite the sources in the project's style
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	@$(BIN)/ruff format .

.PHONY: protos
protos: setup ## generate the messages of the kubelet's gRPC APIs
	@$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. $$(git ls-files '*.proto')

.PHONY: clean
clean: ## remove the environment and everything generated
	rm -rf $(VENV) .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache dist mutants
