#!/bin/sh
# Starts the sample program, watches its variable "counter" for two seconds and prints the report.
# Needs a C compiler, and the four commands in bin/.
set -eu
cd "$(dirname "$0")/.."

${CC:-cc} -g -O1 -pthread -fdebug-prefix-map="$PWD=xw" -o bin/sample examples/sample.c
ready=$(mktemp)
bin/sample 60 >"$ready" &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; rm -f "$ready"' EXIT
until grep -q ready "$ready"; do
	sleep 0.1
done

cat <<END
\$ bin/sample &
$(cat "$ready")
\$ bin/xw-open --pid $pid --watch counter --duration 2s | bin/xw-decode | bin/xw-report
END
bin/xw-open --pid "$pid" --watch counter --duration 2s | bin/xw-decode | bin/xw-report
