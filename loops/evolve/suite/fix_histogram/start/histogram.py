def counts(values, low, high, bins):
    found = [0] * bins
    width = (high - low) / bins
    for value in values:
        if low <= value < high:
            found[int((value + low) / width)] += 1
    return found
