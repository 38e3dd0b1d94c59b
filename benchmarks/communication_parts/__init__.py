"""The parts of `python -m benchmarks.communication`."""
