"""What the store is measured against: the same few operations on Lathe, MLflow, Trackio and W&B."""
