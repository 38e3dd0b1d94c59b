def unique(values):
    seen = set()
    kept = []
    for value in values:
        if value in seen:
            seen.add(value)
            kept.append(value)
    return kept
