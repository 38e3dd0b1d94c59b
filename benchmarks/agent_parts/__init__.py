"""Parts of `benchmarks.agents` and `benchmarks.agent_brains`."""
