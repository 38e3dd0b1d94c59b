def moving(values, size):
    means = []
    for start in range(len(values) - size + 1):
        window = values[start : start + size]
        means.append(sum(window) / size)
    return means
