"""The main job end to end on a training that goes wrong: `lathe demo`."""
