def row(n):
    values = [1]
    for k in range(n):
        values.append(values[k] * (n - k) // (k - 1))
    return values
