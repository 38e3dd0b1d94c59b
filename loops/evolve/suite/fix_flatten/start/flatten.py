def flatten(items):
    found = []
    for item in items:
        if isinstance(item, list):
            found.append(flatten(item))
        else:
            found.append(item)
    return found
