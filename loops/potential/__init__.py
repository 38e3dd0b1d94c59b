"""Potential: what a checkpoint can become after post-training, instead of what it scores today (R801-4.1 to 4.18)."""
