"""The command line: `main.py` is the entry point, one file per group of commands. Heavy imports stay in functions."""
