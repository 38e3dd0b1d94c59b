def coins(amount, kinds):
    ways = [1] + [0] * amount
    for kind in kinds:
        for total in range(kind, amount + 1):
            ways[total] += ways[total - kind]
    return ways[amount]
