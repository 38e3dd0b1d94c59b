def groups(words):
    found = {}
    for word in words:
        key = "".join(sorted(word.lower()))
        if key not in found:
            found[key] = []
        found[key].append(word)
    return list(found.keys())
