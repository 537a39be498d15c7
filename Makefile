# Building needs Go; the demo and the tests need a C compiler too. "make deps" installs what else some tests and the
# benchmarks use.

GO ?= go
PREFIX ?= /usr/local
FUZZTIME ?= 10s
TESTFLAGS ?=
COMMANDS = xw-open xw-decode xw-rebind xw-report

# Debian packages: compilers and libraries of all the kinds of programs that are watched, programs to watch, the tools
# that xw is measured against, and what the example filters are written in. Rust programs are tested where there is a
# rustc, which Debian 12 has too old.
DEBS = gcc g++ gcc-multilib musl-tools libc6-dev binutils dwz \
	redis-server nginx sqlite3 \
	linux-perf bpftrace gdb \
	python3 python3-msgpack

.PHONY: build test lint golden fuzz bench demo deps install clean

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...

# All is compiled first, on all CPUs. The packages are then tested one at a time, so that what watches a live program does not
# compete with compilations and other tests. Where watchpoints do not work such tests are skipped; XW_REQUIRE_HW=1 makes them
# fail instead.
test:
	$(GO) build -race ./...
	$(GO) test -race -p 1 -timeout 20m $(TESTFLAGS) ./...

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test -run '^TestHouse' .

# Rewrites the golden files that exist and differ, without the tests on live programs. A new one is made by -update-new, in its own package, on purpose.
golden:
	$(GO) test $$($(GO) list -f '{{$$p := .ImportPath}}{{range .TestImports}}{{if eq . "xw/pkg/golden"}}{{$$p}}{{end}}{{end}} {{range .XTestImports}}{{if eq . "xw/pkg/golden"}}{{$$p}}{{end}}{{end}}' ./... | tr -s ' \n' '\n' | sort -u) -short -update

# Runs every fuzz target for FUZZTIME.
fuzz:
	@set -e; grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd pkg | sed 's/func //' | \
	while IFS=: read -r file name; do \
		echo "$$(dirname $$file) $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s ./$$(dirname $$file); \
	done

bench: build
	$(GO) run ./bench

demo: build
	sh examples/demo.sh

deps:
	apt-get update
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(DEBS)

install: build
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(COMMANDS:%=bin/%) $(DESTDIR)$(PREFIX)/bin

clean:
	rm -rf bin
