.PHONY: help setup test docs bench law clean

help:         ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*##/\t/'

setup:        ## install into .venv, with what development needs
	tools/install -e ".[dev,bge,rerank,plot]"

test:         ## lint, types, tests: what CI runs
	tools/check

docs:         ## write the generated pages again
	.venv/bin/python tools/write_reference.py
	.venv/bin/python tools/write_requirements.py > docs/requirements.md

bench:        ## speed, as ratios
	.venv/bin/python benchmarks/speed.py

law:          ## the law on this project's own docs
	.venv/bin/python benchmarks/law.py docs --filters 50

clean:        ## remove what was made
	rm -rf .venv .tamis build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
