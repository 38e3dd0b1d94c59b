"""The control plane: API, approvals, effect executor, trainer backends, command line. `wiring.py` builds the whole."""
