def shift(text, k):
    out = ""
    for letter in text:
        if "a" <= letter <= "z":
            out += chr((ord(letter) - 97 + k) % 26 + 97)
        else:
            out += letter
    return out
