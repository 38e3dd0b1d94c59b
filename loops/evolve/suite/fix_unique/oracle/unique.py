def unique(values):
    seen = set()
    kept = []
    for value in values:
        if value not in seen:
            seen.add(value)
            kept.append(value)
    return kept
