"""Parts of `benchmarks.potential`."""
