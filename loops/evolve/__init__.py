"""The self-evolution loop: a scaffold is changed, measured in pairs, and kept only where the gain is real."""
