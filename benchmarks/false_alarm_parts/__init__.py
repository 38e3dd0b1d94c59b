"""Parts of `benchmarks.false_alarms`: healthy trainings of several kinds, and the faults that show who could speak."""
