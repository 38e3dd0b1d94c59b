def roman(text):
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
    total = 0
    last = 0
    for letter in reversed(text):
        value = values[letter]
        if value < last:
            total -= value
        else:
            total += value
            last = value
    return total
