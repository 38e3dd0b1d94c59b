"""Components of data pipelines: what each is declared to be, what a version is worth, and which one takes the place."""
