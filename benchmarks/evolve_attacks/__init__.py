"""Attacks from inside a scaffold; README.md says how they are judged."""
