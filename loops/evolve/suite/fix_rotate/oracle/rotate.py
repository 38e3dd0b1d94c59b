def rotate(values, k):
    if not values:
        return []
    k = k % len(values)
    cut = len(values) - k
    return values[cut:] + values[:cut]
