"""Parts of `benchmarks.trust` that need no world of their own, and the Lathe that all parts start. See trust.py."""
