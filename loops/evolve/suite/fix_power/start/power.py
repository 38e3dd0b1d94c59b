def power(base, exponent):
    result = 1
    while exponent > 0:
        if exponent % 2 == 0:
            result = result * base
        base = base * base
        exponent = exponent // 2
    return result
