"""TrainRCA: a benchmark of finding why a training went wrong, on cases from really executed small trainings."""
