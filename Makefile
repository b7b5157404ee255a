# make demo: set up and run the main job.   make test: set up and run the tests.   make lint: ruff and mypy.
# make fuzz MINUTES=10: damaged inputs for every reader.   make kill N=100: training killed, doubled, out of disk.
# make docs: the documentation site, in build/site.
# make wheel: the wheel in dist/, and `dbtm demo` from it in an empty environment.
# make test-kernels: set up and run the tests of the GPU kernels without a GPU, in Triton's interpreter.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TRITON := .venv/.triton
DOCS := .venv/.docs
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
TEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: demo docs wheel test test-kernels fuzz kill lint clean

demo: $(READY)
	$(BIN)/dbtm demo

test: $(READY)
	$(TEST)

test-kernels: $(TRITON)
	CUDA_VISIBLE_DEVICES= TRITON_INTERPRET=1 $(TEST) -m triton tests/kernels

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10)

kill: $(READY)
	$(BIN)/python -m tests.fuzz.kill $(or $(N),100)

lint: $(READY)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[dev]'
	touch $(READY)

$(TRITON): $(READY)
	$(INSTALL) triton
	touch $(TRITON)

wheel: $(READY)
	rm -rf dist build/empty && mkdir -p build/empty
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist .
	$(PYTHON) -m venv build/empty/.venv
	PIP_CONSTRAINT=constraints.txt build/empty/.venv/bin/python -m pip install --quiet dist/*.whl
	cd build/empty && .venv/bin/dbtm demo
	ls -l dist

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

$(DOCS): $(READY) mkdocs.yml
	$(INSTALL) -e '.[docs]'
	touch $(DOCS)

clean:
	rm -rf .venv build dist
