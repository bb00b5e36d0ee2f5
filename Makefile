# Baton. `make demo` shows it, `make test` tests it; both bring what a fresh Debian 12 or newer lacks. Run as root.

WITH := integration/with-tools
CACHE := $(or $(BATON_CACHE),/var/cache/baton)
CARGO_DENY := 0.20.2
# The containerd versions that `make test-matrix` tests with, beside the nodes' own 2.1.
CONTAINERD := 2.0 2.2 2.3 2.4
# What is installed on a node.
PRODUCT := baton baton-gpu-agent baton-hook containerd-shim-baton-v2
TARGET := $(or $(CARGO_TARGET_DIR),target)/release

.PHONY: all setup build test gpu-kit kubernetes test-k8s test-vm test-matrix critest demo bench lint lint-setup fuzz clean

all: build

setup: ## what the machine lacks, and the root of the test nodes
	integration/setup

build: setup ## what is tested with, and then what is installed
	$(WITH) cargo build --release --workspace --locked
	$(WITH) cargo build --profile product $(PRODUCT:%=--package %) --locked
	touch $(PRODUCT:%=$(TARGET)/../product/%) # nodes take what was built last: this

test: build
	$(WITH) cargo test --release --workspace --exclude baton-kubernetes-tests --locked

gpu-kit: build ## one archive for a bare machine with an NVIDIA driver: unpack it there and ./run
	$(TARGET)/baton-gpu-kit pack $(TARGET)/../gpu-kit.tar.gz --bin $(TARGET) --root $(CACHE)/root/ \
	    --python $$(integration/programs python)/layer.tar

kubernetes: setup ## etcd and Kubernetes, once, from source: ten minutes
	integration/programs etcd kubernetes >/dev/null

test-k8s: build kubernetes ## pods on a real Kubernetes, which runs on test nodes
	$(WITH) cargo test --release -p baton-kubernetes-tests --locked

test-matrix: build ## the end-to-end tests with each containerd; each is built once, which takes some minutes
	set -e; for version in $(CONTAINERD); do \
	    integration/programs containerd-$$version >/dev/null; \
	    echo "== containerd $$version"; \
	    BATON_TEST_CONTAINERD=$$version $(WITH) cargo test --release -p baton-tests --locked; done

critest: build ## the CRI conformance suite, with Baton and with runc's shim; CRITEST="--containerd 2.4" and the like
	integration/programs critest >/dev/null
	$(TARGET)/baton-critest $(CRITEST)

test-vm: build ## two nodes in virtual machines with their own kernel, cgroup v2 alone: about two minutes; needs no KVM
	integration/vm/kernel
	$(TARGET)/baton-vm

demo: build
	$(TARGET)/baton-demo

bench: build kubernetes ## BENCH="idle saving" and the like choose parts
	$(TARGET)/baton-bench $(BENCH)

lint: setup lint-setup
	$(WITH) cargo fmt --all --check
	$(WITH) cargo clippy --release --workspace --all-targets --locked -- -D warnings
	$(WITH) cargo fetch --quiet --locked
	$(WITH) cargo deny --offline --locked check licenses bans sources

lint-setup: setup ## cargo-deny, once, from source: two minutes
	$(WITH) cargo deny --version >/dev/null 2>&1 || \
	    $(WITH) cargo install --locked --version $(CARGO_DENY) --root $(CACHE)/tools cargo-deny

fuzz: setup ## each parser of foreign bytes for a minute; needs rustup's nightly and cargo-fuzz
	for target in $$($(WITH) cargo +nightly fuzz list --fuzz-dir integration/fuzz); do \
	    $(WITH) cargo +nightly fuzz run --fuzz-dir integration/fuzz $$target -- -max_total_time=$(or $(SECONDS_EACH),60) -max_len=65536 || exit 1; done

clean: ## what was built, and whatever nodes left; the cache stays
	-[ ! -x $(TARGET)/baton-node ] || $(TARGET)/baton-node stop --all
	$(WITH) cargo clean
