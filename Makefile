# `make demo` builds Fathom and measures the disk under this folder; `make test` passes the tests.
# Both set up what they need and say what is missing when they cannot.

HOST   := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
STATIC := RUSTFLAGS="-C target-feature=+crt-static"
BIN    := target/$(HOST)/release/fathom
TESTS  := FATHOM_BIN="$(CURDIR)/$(BIN)" FATHOM_NOT_RUN="$(CURDIR)/target/not-run.txt"

.PHONY: demo test testbed guest build lint bench clean setup-build setup-test

demo: build
	@mkdir -p target/demo && rm -f target/demo/demo.*
	@cd target/demo && "$(CURDIR)/$(BIN)" run quick -o demo.fathom
	@cd target/demo && "$(CURDIR)/$(BIN)" report demo.fathom
	@echo "open target/demo/demo.html in a browser"

# The static program: copy it to any test host.
build: setup-build
	@$(STATIC) cargo build --release --locked --target $$(rustc -vV | sed -n 's/^host: //p') -p fathom
	@echo "built $(BIN)"

test: setup-test build guest lint
	@rm -f target/not-run.txt
	$(TESTS) cargo test --workspace --locked --no-fail-fast --exclude blackbox --exclude testbed --exclude bench
	$(TESTS) cargo test --locked --no-fail-fast -p blackbox -- --test-threads 2
	$(TESTS) cargo test --locked --no-fail-fast -p testbed -- --test-threads 2 --nocapture
	$(TESTS) $(STATIC) cargo test --release --locked --target $(HOST) -p bench -- --test-threads 1
	@$(TESTS) scripts/consumers.sh
	@$(TESTS) scripts/web.sh
	@scripts/not-run.sh target/not-run.txt

# Real NVMe drivers in virtual machines: every check with what was seen.
testbed: setup-test build guest
	@rm -f target/not-run.txt
	$(TESTS) cargo test --locked --no-fail-fast -p testbed -- --test-threads 1 --nocapture
	@scripts/not-run.sh target/not-run.txt

guest:
	@$(STATIC) cargo build --release --locked --target $(HOST) -p testbed

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Fathom against fio, the virtual drive, the cost of telemetry, viewers and checking, placement. About an hour and a half; ARGS="--rounds 3 --skip-zram" for less.
bench: setup-test build
	@$(STATIC) cargo build --release --locked --target $(HOST) -p bench
	@target/$(HOST)/release/engine $(ARGS)
	@target/$(HOST)/release/sim
	@target/$(HOST)/release/telemetry
	@target/$(HOST)/release/viewers
	@target/$(HOST)/release/verify
	@target/$(HOST)/release/placement

setup-build:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh test

clean:
	cargo clean
