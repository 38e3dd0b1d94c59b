def majority(values):
    candidate, count = None, 0
    for value in values:
        if count == 0:
            candidate = value
        count += 1 if value == candidate else -1
    if values.count(candidate) * 2 > len(values):
        return candidate
    return None
