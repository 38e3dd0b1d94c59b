"""SIGKILL at random moments: nothing accepted is lost, nothing is done twice, the outcome is the same."""
