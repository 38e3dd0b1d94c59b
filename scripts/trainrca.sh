#!/bin/sh
# Makes all cases of TrainRCA and executes what its methods want to run, a few more cases at a time. Interrupt it at
# will: it goes on. Everything lies in ~/.lathe/bench/trainrca, or where --work says.
set -eu
cd "$(dirname "$0")/.."
for count in 10 20 40 80 120 160 200 0; do
    .venv/bin/python -m benchmarks.trainrca --limit "$count" "$@"
done
