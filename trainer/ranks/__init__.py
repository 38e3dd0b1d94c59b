"""How a training is spread over processes: `alone` is the seam and the process that simulates all ranks by itself."""
