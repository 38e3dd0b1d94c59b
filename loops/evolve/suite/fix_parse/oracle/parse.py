def seconds(text):
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part)
    return total
