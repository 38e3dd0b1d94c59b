"""Ways to run a training (contracts/backend.py). A backend gets a checked-out tree and never touches git."""
