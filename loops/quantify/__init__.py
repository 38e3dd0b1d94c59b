"""Quantification loops: what experts judge becomes a measured task. The first one makes text classifiers."""
