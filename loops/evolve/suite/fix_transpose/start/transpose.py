def transpose(rows):
    if not rows:
        return []
    columns = []
    for j in range(len(rows[0])):
        columns.append([rows[j][i] for i in range(len(rows))])
    return columns
