# `make demo` builds Fathom and measures the disk under this folder; `make test` passes the tests.
# Both set up what they need and say what is missing when they cannot.

HOST   := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
STATIC := RUSTFLAGS="-C target-feature=+crt-static"
BIN    := target/$(HOST)/release/fathom
TESTS  := FATHOM_BIN="$(CURDIR)/$(BIN)" FATHOM_NOT_RUN="$(CURDIR)/target/not-run.txt"

.PHONY: demo test build lint bench clean setup-build setup-test

demo: build
	@mkdir -p target/demo
	@cd target/demo && "$(CURDIR)/$(BIN)" run quick

# The static program: copy it to any test host.
build: setup-build
	@$(STATIC) cargo build --release --locked --target $$(rustc -vV | sed -n 's/^host: //p') -p fathom
	@echo "built $(BIN)"

test: setup-test build lint
	@rm -f target/not-run.txt
	$(TESTS) cargo test --workspace --locked --no-fail-fast --exclude blackbox --exclude bench
	$(TESTS) cargo test --locked --no-fail-fast -p blackbox -- --test-threads 2
	$(TESTS) $(STATIC) cargo test --release --locked --target $(HOST) -p bench -- --test-threads 1
	@FATHOM_BIN="$(CURDIR)/$(BIN)" FATHOM_NOT_RUN="$(CURDIR)/target/not-run.txt" scripts/consumers.sh
	@scripts/not-run.sh target/not-run.txt

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Fathom against fio, interleaved. About twelve minutes; ARGS="--rounds 3 --skip-zram" for less.
bench: setup-test build
	@$(STATIC) cargo build --release --locked --target $(HOST) -p bench
	@target/$(HOST)/release/engine $(ARGS)
	@target/$(HOST)/release/sim

setup-build:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh test

clean:
	cargo clean
