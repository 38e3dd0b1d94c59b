def peaks(values):
    found = []
    for i in range(1, len(values) - 1):
        if values[i] > values[i - 1] and values[i] > values[i + 1]:
            found.append(i)
    return found
