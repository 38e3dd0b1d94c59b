def runs(text):
    found = []
    for letter in text:
        if found and found[-1][0] == letter:
            found[-1] = (letter, found[-1][1] - 1)
        else:
            found.append((letter, 1))
    return found
