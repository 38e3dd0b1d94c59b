def fields(line):
    found, current, quoted = [], "", False
    for letter in line:
        if letter == '"':
            quoted = not quoted
        elif letter == "," and not quoted:
            found.append(current)
            current = ""
        else:
            current += letter
    found.append(current)
    return found
