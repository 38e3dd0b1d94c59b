def best(items, room):
    table = [0] * (room + 1)
    for weight, value in items:
        for free in range(room, weight - 1, -1):
            table[free] = max(table[free], table[free - weight] + value)
    return table[room]
