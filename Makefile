# `make` alone says what there is. Everything is installed into .venv and nowhere else.
.DEFAULT_GOAL := help
.PHONY: help install reproduce site paper test test-all golden lint docs lock upgrade sbom clean

VENV := .venv
BIN := $(VENV)/bin
# The longest suites first, so that no worker waits for another at the end.
SLOW := tests/workflow tests/realdata
SUITES = $(wildcard $(SLOW)) $(filter-out $(SLOW) tests/conftest.py tests/__pycache__ tests/__init__.py,$(wildcard tests/test_*.py) $(patsubst %/,%,$(wildcard tests/*/)))

help:
	@echo "make reproduce   install, then compute every table and figure from embedded data: results/index.html"
	@echo "make site        write all pages without computing anything: recorded results, your own, documentation"
	@echo "make paper       write a LaTeX folder with every table and figure: paper/"
	@echo "make test        install, then run the tests, all but the longest"
	@echo "make test-all    also run the longest tests, plant every known bug, remove every guard, kill a run at 50 places,"
	@echo "                 disturb classify at each of its system calls,"
	@echo "                 compute the whole demo, audit mechanisms, replay methods, compute recorded jobs"
	@echo "                 again (with PRIVATE_GRAPHS_MIRROR, the raw files), and run on Slurm if installed"
	@echo "make golden      compute the whole demo and write tests/golden, with which test-all compares"
	@echo "make install     install the pinned packages into .venv"
	@echo "make lint        check style and types: ruff, mypy, snakefmt, snakemake --lint"
	@echo "make docs        write the generated tables of docs/, workflow/schemas/ and README's picture (with Chromium)"
	@echo "make lock        write requirements.lock from what is in .venv (PIP_INDEX_URL: the index that has the files)"
	@echo "make upgrade     raise all pins to the newest versions, then run every test on them"
	@echo "make sbom        write build/sbom.json (CycloneDX), and ask which pins have known faults"
	@echo "make clean       remove results/ and the datasets built from raw files"

install:
	@sh envs/install.sh $(VENV)

reproduce: install
	@$(BIN)/snakemake

site: install
	@$(BIN)/private-graphs site

paper: install
	@$(BIN)/private-graphs paper

test: install
	@$(BIN)/python tests/compile_kernels.py
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(SUITES)

test-all: test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m long --long $(SUITES)
	$(BIN)/python -m pytest tests/mutants tests/mechanisms --all-mutants
	$(BIN)/python -m pytest tests/test_faults.py tests/documents/test_payment.py --all-faults
	$(BIN)/python -m pytest tests/workflow/test_demo.py tests/report/test_restate.py tests/test_docs_site.py tests/report/test_paper.py --demo
	$(BIN)/private-graphs audit --mechanisms
	$(BIN)/private-graphs audit --replay
	test -z "$$PRIVATE_GRAPHS_MIRROR" || $(BIN)/private-graphs rerun --sample 20 --minutes 10 --mirror "$$PRIVATE_GRAPHS_MIRROR"
	bash tests/cluster/slurm.sh || test $$? -eq 77
	bash tests/cluster/container.sh || test $$? -eq 77

golden: install
	$(BIN)/python -m pytest tests/workflow/test_demo.py --renew

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

docs: install
	$(BIN)/python docs/tables.py

lock:
	$(BIN)/python envs/lock.py

# Every test is the judge: where one fails, git checkout requirements.lock envs && make install.
upgrade: install
	$(BIN)/python -m pip install --upgrade --upgrade-strategy eager --quiet -e ".[bert,docs,fasttext,reference,test,workflow]"
	$(BIN)/python envs/lock.py
	@$(MAKE) --no-print-directory test

# The tools have an environment of their own. pip-audit has no database: it asks pypi.org, and where
# that is out of reach it fails after the list is written, and no pin is known to be without faults.
sbom:
	python3 -m venv build/sbom
	build/sbom/bin/python -m pip install --quiet cyclonedx-bom==7.5.0 pip-audit==2.10.1
	build/sbom/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible -o build/sbom.json
	build/sbom/bin/pip-audit --requirement requirements.lock --no-deps --disable-pip

clean:
	rm -rf results data/processed
