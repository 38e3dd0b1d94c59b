def prefix(words):
    if not words:
        return ""
    shortest = max(words, key=len)
    for i in range(len(shortest)):
        for word in words:
            if word[i] != shortest[i]:
                return shortest[:i]
    return shortest
