"""Compact text classifiers, measured: features, training, evaluation, selection of labels, the gate, the scorer."""
