"""Parts of `benchmarks.evolve`."""
