def most(text):
    best, top = "", 0
    for vowel in "aeiou":
        count = text.lower().count(vowel)
        if count > top:
            best, top = vowel, count
    return best
