def primes(n):
    marks = [True] * (n + 1)
    found = []
    for number in range(2, n):
        if marks[number]:
            found.append(number)
            for multiple in range(number * number, n + 1, number):
                marks[multiple] = False
    return found
