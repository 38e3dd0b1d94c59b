def depth(tree):
    if not isinstance(tree, list):
        return 0
    deepest = 0
    for branch in tree:
        deepest = max(deepest, depth(branch))
    return deepest + 1
