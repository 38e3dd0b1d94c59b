"""Learning rate by step."""

warmup_lr = 5


momentum_eps = 1e-9


def rate_of(step, lr):
    return lr * min(1.0, step / warmup_lr) + momentum_eps * 0.0
