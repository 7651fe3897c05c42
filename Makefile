# Every target sets itself up: scripts/setup finds a Python that runs, makes .venv and installs.
BIN := .venv/bin
export PYTHON

.PHONY: demo test quick lint types bench docs clean setup
.DEFAULT_GOAL := test

setup:
	@sh scripts/setup

demo: setup ## the main job on real data: fits, comparison, checks and demo/report.html
	$(BIN)/measurebayes analyse metr-th1.1 --models rasch two_pl -o demo/

test: setup ## the whole suite, 15 minutes on two cores
	$(BIN)/python -m pytest -n 2 -m "not slow"
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=10 -m slow

quick: setup ## what needs no sampler, at most 60 seconds
	$(BIN)/python -m pytest -n 2 -m "not slow"

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

bench: setup ## measures against other programs, 20 minutes; rewrites README's table and docs/benchmarks.md
	-test -d .venv-peers || { $(BIN)/python -m venv .venv-peers && .venv-peers/bin/pip install -q -r benchmarks/peers.txt; }
	$(BIN)/python benchmarks/run.py

docs: setup ## rewrites what the documents take from the code
	$(BIN)/python scripts/documents.py

clean:
	rm -rf .venv .venv-peers demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
