"""Loops: propose -> execute -> measure -> update, over the store. Start with core.py (contract) and runner.py."""
