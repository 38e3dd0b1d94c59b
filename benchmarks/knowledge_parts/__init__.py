"""The parts of `benchmarks.knowledge`."""
