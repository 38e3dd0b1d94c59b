"""A training elsewhere: logs 1,000 series at a fixed rate through the client file, as a person's training would.

python -m benchmarks.trust_load.logger URL TOKEN SPOOL RUN SECONDS
"""

from __future__ import annotations

import math
import sys
import time

STEPS_PER_S = 10
NAMES = tuple(f"grad_norm/layers.{layer}.experts.{expert}" for layer in range(50) for expert in range(20))


def value(step: int, index: int) -> float:
    return math.sin(step * 1.37 + index)


def main() -> None:
    import lathe_log  # type: ignore[import-not-found]  # of another environment; its folder is on PYTHONPATH

    url, token, spool, run_id, seconds = sys.argv[1:]
    run = lathe_log.init("load", run=run_id, start_step=0, url=url, token=token, spool=spool)
    begin = time.monotonic()
    for step in range(1, int(float(seconds) * STEPS_PER_S) + 1):
        time.sleep(max(0.0, begin + step / STEPS_PER_S - time.monotonic()))
        run.log({name: value(step, index) for index, name in enumerate(NAMES)}, step=step)
    sys.stdout.write(f"{run.finish(timeout_s=30)}\n")


if __name__ == "__main__":
    main()
