"""How work grows with its input: a ratio within one run, which a slow or busy machine does not change."""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LINEAR = 3.0
"""Times the input's own growth. Quadratic work over eight times the input grows eight times as much."""


def growth(work: Callable[[T], object], small: T, large: T, *, runs: int = 3) -> float:
    """How many times the CPU time of `work(small)` one `work(large)` takes, each at its best of `runs`.

    It is this thread's own time, and the collector is off: what other tests left is not the work's.
    """
    gc.collect()
    gc.disable()
    try:
        times = [min(_cpu(work, size) for _ in range(runs)) for size in (small, large)]
    finally:
        gc.enable()
    return times[1] / times[0]


def _cpu(work: Callable[[T], object], size: T) -> float:
    begun = time.thread_time_ns()
    work(size)
    return max(time.thread_time_ns() - begun, 100_000)
