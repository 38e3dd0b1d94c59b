"""The API under load: many mixed requests at a fixed rate while a training logs through it."""
