"""Evaluations whose every number names what it is: task, protocol, model, and the raw outputs behind it."""
