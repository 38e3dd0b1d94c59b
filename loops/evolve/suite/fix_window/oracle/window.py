def longest(text):
    start, best = 0, 0
    seen = {}
    for i, letter in enumerate(text):
        if letter in seen and seen[letter] >= start:
            start = seen[letter] + 1
        seen[letter] = i
        best = max(best, i - start + 1)
    return best
