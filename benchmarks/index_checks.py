"""What looking at positions costs: operations that read or write at positions, with their checks and without.

Usage: index_checks.py [SIZE ...] (10000, 1000000 and 32000000 by default). Turns with checks and without follow each other in one
process: what lies elsewhere in memory, as in another process, is gathered up to a tenth faster or slower. The cost is the median
of the ratios of neighbouring turns, in both orders.
Results are kept until the device has computed them, as what nobody keeps is computed for its checks only; of the last of a turn a
number is read, with which reports come along. Positions are of several tensors that take turns: calls that are equal would be
computed, and looked at, once. The last columns are the cost where nothing is read but the device waited for, and that of the
GPU's time alone, by its own clock.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import webgpu_torch as torch
from common import LOAD, device, wait_ours
from webgpu_torch_core.backend.profiling import Observer, ignore, observe
from webgpu_torch_core.record.node import running

SIZES = (10_000, 1_000_000, 32_000_000)
#: the elements of a row of a table, classes, index tensors, and the pairs of turns
WIDTH, CLASSES, TENSORS, TURNS = 64, 10, 4, 16
#: seconds that a turn lasts at least, and the calls of one at most
TURN, CALLS = 0.02, 200
#: what ends a turn
ENDS = ("read", "synchronize", "gpu")


def operations(size: int) -> dict[str, Callable[[], Any]]:
    """Return calls that read or write ``size`` numbers."""
    place, functional = device(), torch.nn.functional

    def positions(limit: int, count: int) -> Callable[[], Any]:
        return partial(next, cycle([torch.randint(0, limit, (count,), device=place) for _ in range(TENSORS)]))

    x, y = (torch.randn(size, device=place) for _ in range(2))
    at, rows = (positions(limit, limit) for limit in (size, size // WIDTH))
    each = partial(next, cycle([torch.randperm(size, device=place) for _ in range(2)]))
    table, square = x[: size // WIDTH * WIDTH].reshape(-1, WIDTH), x[: size // 100 * 100].reshape(-1, 100)
    first, second = (positions(limit, size) for limit in square.shape)
    count = max(size // CLASSES, 1)
    labels = positions(CLASSES, count)
    # Losses of the same scores would be computed together, as many as there is room for.
    scores = partial(next, cycle([torch.randn(count, CLASSES, device=place) for _ in range(TENSORS)]))
    return {
        "x.gather(0, i)": lambda: x.gather(0, at()),
        "x.take(i)": lambda: x.take(at()),
        "x.index_select(0, i)": lambda: table.index_select(0, rows()),
        "x[i]": lambda: x[at()],
        "x[i, j]": lambda: square[first(), second()],
        "x.scatter(0, i, y)": lambda: x.scatter(0, each(), y),
        "x.index_put((i,), y)": lambda: x.index_put((each(),), y),
        "x.index_put((i, j), y)": lambda: square.index_put((first(), second()), y),
        "embedding(i, x)": lambda: functional.embedding(rows(), table),
        "one_hot(i, 10)": lambda: functional.one_hot(labels(), CLASSES),
        "cross_entropy(x, i)": lambda: functional.cross_entropy(scores(), labels()),
    }


class Clock(Observer):
    """Adds up the time of kernels by the GPU's clock."""

    seconds = 0.0

    def advance(self, device: Any, run: Any) -> None:
        """Run a plan and time its kernels."""
        device.advance_timed(run, self.add)

    def add(self, name: str, seconds: float, clock: str) -> None:
        """Add a kernel's time."""
        self.seconds += seconds


def turn(call: Callable[[], Any], calls: int, end: str) -> float:
    """Return the seconds of a call."""
    wait_ours()
    if end == "gpu":
        clock = Clock()
        observe(clock)
        kept = [call() for _ in range(calls)]
        wait_ours()
        ignore(clock)
        return clock.seconds / len(kept)
    start = time.perf_counter()
    kept = [call() for _ in range(calls)]
    if end == "read":
        kept[-1].flatten()[:1].tolist()
    wait_ours()
    return (time.perf_counter() - start) / len(kept)


class _Backward:
    """What runs while nothing is looked at: a node of PyTorch's own functions, whose positions are right by construction."""

    custom = False


@contextmanager
def unchecked() -> Iterator[None]:
    """Within, no positions are looked at."""
    nodes: list[Any] = running.nodes
    nodes.append(_Backward())
    try:
        yield
    finally:
        nodes.pop()


def pair(call: Callable[[], Any], calls: int, end: str, checks_first: bool) -> tuple[float, float]:
    """Return the seconds of a call with checks and of one without."""
    found = [0.0, 0.0]
    for checks in (checks_first, not checks_first):
        if checks:
            found[0] = turn(call, calls, end)
        else:
            with unchecked():
                found[1] = turn(call, calls, end)
    return found[0], found[1]


def compare(call: Callable[[], Any], size: int, name: str) -> None:
    """Print the cost of an operation's checks."""
    until = time.perf_counter() + LOAD
    once = min(pair(call, 8, "read", True))
    while time.perf_counter() < until:
        once = min(once, *pair(call, 8, "read", True))
    calls = max(1, min(CALLS, round(TURN / once)))
    line = ""
    for end in ENDS:
        pair(call, calls, end, True)
        pairs = [pair(call, calls, end, number % 2 == 0) for number in range(TURNS)]
        if not line:
            with_checks, without = (statistics.median(side) for side in zip(*pairs, strict=True))
            line = f"{size:>9} {name:24} {without * 1e3:9.4f} ms {with_checks * 1e3:9.4f} ms"
        line += f" {statistics.median(one / other for one, other in pairs) - 1:+11.1%}"
    print(line, flush=True)


def main() -> None:
    """Print a line for each operation and size."""
    print(
        f"{'numbers':>9} {'operation':24} {'without':>12} {'with checks':>12} {' '.join(f'{each:>11}' for each in ENDS)}"
    )
    for size in map(int, sys.argv[1:] or SIZES):
        for name, call in operations(size).items():
            compare(call, size, name)


if __name__ == "__main__":
    main()
