# Baton. `make demo` shows it, `make test` tests it; both bring what a fresh Debian 12 or newer lacks. Run as root.

WITH := integration/with-tools
TARGET := $(or $(CARGO_TARGET_DIR),target)/release

.PHONY: all setup build test demo bench lint lint-setup clean

all: build

setup: ## what the machine lacks, and the root of the test nodes
	integration/setup

build: setup
	$(WITH) cargo build --release --workspace --locked

test: build
	integration/node stop --all
	$(WITH) cargo test --release --workspace --locked

demo: build
	$(TARGET)/baton-demo

bench: build
	$(TARGET)/baton-bench

lint: setup
	$(WITH) cargo fmt --all --check
	$(WITH) cargo clippy --release --workspace --all-targets --locked -- -D warnings
	@if $(WITH) cargo deny --version >/dev/null 2>&1; then \
	    $(WITH) cargo deny --offline --locked check licenses bans sources; \
	else \
	    echo "lint: no cargo-deny here, so the licences are not checked; 'make lint-setup' installs it"; \
	fi

lint-setup: setup ## cargo-deny, built from source: some minutes
	$(WITH) cargo install --locked cargo-deny

clean: ## what was built, and whatever nodes left; the cache stays
	-[ ! -x $(TARGET)/baton-node ] || $(TARGET)/baton-node stop --all
	$(WITH) cargo clean
