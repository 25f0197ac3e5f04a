# Every target works on a fresh clone with only Python, pip and make: it sets up .venv first if absent.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: venv demo test test-all lint bench docs rooms dist fuzz bounds soak mutants crashes known clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (a few minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch==2.13.0 -e ".[all]"
	@touch $@

demo: venv
	$(BIN)/python scripts/demo.py --out runs/demo

test: venv
	$(BIN)/python -m pytest -n 3 -m "not slow"

test-all: venv
	$(BIN)/python -m pytest -n 3

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=envs $(BIN)/lint-imports

bench: venv
	$(BIN)/python scripts/benchmark.py envs

# The wheel and the source archive, built and checked; publishing them, and the tag, is up to a person.
dist: venv
	rm -rf dist
	$(BIN)/python -m hatchling build -t wheel -t sdist -d dist
	PYTHONPATH=envs:. $(BIN)/python tools/check_dist.py dist

# Damaged files for every reader; COUNT=100000 takes an hour and a half.
fuzz: venv
	$(BIN)/python tools/fuzz_readers.py --count $(or $(COUNT),10000) --out runs/fuzz

# Ten million random steps of every family, with laws of conservation checked (under a minute).
soak: venv
	$(BIN)/python tools/soak.py --steps $(or $(STEPS),10000000) --first $(or $(SEED),0) --out runs/soak

# Random calls in random order on every family, right ones and wrong ones, with every index checked.
bounds: venv
	NUMBA_BOUNDSCHECK=1 GREENDC_FUZZ_CALLS=$(or $(CALLS),10000) GREENDC_FUZZ_SEED=$(or $(SEED),0) $(BIN)/python \
	  -m pytest -s -k random_calls $(foreach family,pool vcc cluster,tests/greendc/*/test_$(family)_calls.py)

# Named mutations of the source, each of which some test must notice (half an hour). Those that runs/mutants has
# as killed, with the same source and tests, are left out: a run that was cut off goes on.
mutants: venv
	$(BIN)/python tools/mutants.py --rest --out runs/mutants

# Trainings killed at random instants and at every change of their folder, resumed, compared bit for bit.
crashes: venv
	$(BIN)/python tools/crash_trainings.py --count $(or $(COUNT),1000) --minutes $(or $(MINUTES),120)

# Others' problems, in a folder of their own: their packages want a newer Gymnasium than imitation does.
KNOWN := $(wildcard tests/sb3_greendc/experiments/test_known_*.py tests/sb3_greendc/experiments/test_job_shop_*.py) \
  tests/test_examples.py -k "test_known or job_shop or lava"
known: $(VENV)-known/.installed
	GREENDC_NO_SKIPS=1 $(VENV)-known/bin/python -m pytest -n 3 -m "not slow" $(KNOWN)
	GREENDC_NO_SKIPS=1 $(VENV)-known/bin/python -m pytest tests/sb3_greendc/discrete_sac/test_lunar_lander.py

$(VENV)-known/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-known
	$(VENV)-known/bin/python -m pip install --quiet torch==2.13.0 -e ".[learners]" "gymnasium>=1" pytest pytest-xdist
	@touch $@

docs: venv
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# The picture of ARCHITECTURE.md, from the imports that there are.
rooms: venv
	PYTHONPATH=envs:. $(BIN)/python tools/rooms.py

clean:
	rm -rf $(VENV) $(VENV)-known runs build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find benchmarks docs envs examples sb3_greendc scripts tests tools -name __pycache__ -prune -exec rm -rf {} +
