"""What looking at positions costs: operations that read or write at positions, with their checks and without.

Usage: index_checks.py [SIZE ...] (10000, 1000000 and 32000000 by default). Two processes, one that checks and one that does not,
run each operation in turns, so that both meet the same clocks; the cost is the median of the ratios of neighbouring turns.
Results are kept until the device has computed them, as what nobody keeps is computed for its checks only; of the last of a turn a
number is read, with which reports come along.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import webgpu_torch as torch
from common import LOAD, device, wait_ours
from webgpu_torch_core.operations.indexing import index_checks

SIZES = (10_000, 1_000_000, 32_000_000)
#: the elements of a row of a table, classes, and the turns of each process
WIDTH, CLASSES, TURNS = 64, 10, 15
#: seconds that a turn lasts at least, and the calls of one at most
TURN, CALLS = 0.004, 100


def operations(size: int) -> dict[str, Callable[[], Any]]:
    """Return calls that read or write ``size`` numbers."""
    place, functional = device(), torch.nn.functional
    x, y = (torch.randn(size, device=place) for _ in range(2))
    at, rows = (torch.randint(0, limit, (limit,), device=place) for limit in (size, size // WIDTH))
    each = torch.randperm(size, device=place)
    table, square = x[: size // WIDTH * WIDTH].reshape(-1, WIDTH), x[: size // 100 * 100].reshape(-1, 100)
    first, second = (torch.randint(0, limit, (size,), device=place) for limit in square.shape)
    scores = torch.randn(max(size // CLASSES, 1), CLASSES, device=place)
    labels = torch.randint(0, CLASSES, (scores.shape[0],), device=place)
    return {
        "x.gather(0, i)": lambda: x.gather(0, at),
        "x.take(i)": lambda: x.take(at),
        "x.index_select(0, i)": lambda: table.index_select(0, rows),
        "x[i]": lambda: x[at],
        "x[i, j]": lambda: square[first, second],
        "x.scatter(0, i, y)": lambda: x.scatter(0, each, y),
        "x.index_put((i,), y)": lambda: x.index_put((each,), y),
        "x.index_put((i, j), y)": lambda: square.index_put((first, second), y),
        "embedding(i, x)": lambda: functional.embedding(rows, table),
        "one_hot(i, 10)": lambda: functional.one_hot(labels, CLASSES),
        "cross_entropy(x, i)": lambda: functional.cross_entropy(scores, labels),
    }


def serve(checks: bool) -> None:
    """Time what is asked for: lines of a size, an operation's number and a number of calls, answered with seconds a call."""
    if not checks:
        index_checks._is_checked = lambda numbers: False
    made: dict[int, list[Callable[[], Any]]] = {}
    for line in sys.stdin:
        size, number, calls = map(int, line.split())
        if size not in made:
            made.clear()
            made[size] = list(operations(size).values())
        call = made[size][number]
        wait_ours()
        start = time.perf_counter()
        kept = [call() for _ in range(calls)]
        kept[-1].flatten()[:1].tolist()
        wait_ours()
        print((time.perf_counter() - start) / calls, flush=True)
        del kept


class Process:
    """One of the two processes."""

    def __init__(self, side: str) -> None:
        pipe = subprocess.PIPE
        self.child = subprocess.Popen([sys.executable, __file__, side], stdin=pipe, stdout=pipe, text=True)

    def seconds(self, size: int, number: int, calls: int) -> float:
        """Return the time of a call."""
        assert self.child.stdin is not None and self.child.stdout is not None
        print(size, number, calls, file=self.child.stdin, flush=True)
        return float(self.child.stdout.readline())


def compare(sides: tuple[Process, Process], size: int, number: int, name: str) -> None:
    """Print the cost of an operation's checks."""
    until = time.perf_counter() + LOAD
    once = min(each.seconds(size, number, 1) for each in sides for _ in range(2))
    while time.perf_counter() < until:
        once = min(once, *(each.seconds(size, number, 3) for each in sides))
    calls = max(1, min(CALLS, round(TURN / once)))
    pairs = [tuple(each.seconds(size, number, calls) for each in sides) for _ in range(TURNS)]
    with_checks, without = (statistics.median(side) for side in zip(*pairs, strict=True))
    cost = statistics.median(one / other for one, other in pairs) - 1
    print(f"{size:>9} {name:24} {without * 1e3:9.4f} ms {with_checks * 1e3:9.4f} ms {cost:+7.1%}", flush=True)


def main() -> None:
    """Print a line for each operation and size."""
    if sys.argv[1:] in (["with"], ["without"]):
        return serve(sys.argv[1] == "with")
    sides = (Process("with"), Process("without"))
    print(f"{'numbers':>9} {'operation':24} {'without':>12} {'with checks':>12} {'cost':>7}")
    for size in map(int, sys.argv[1:] or SIZES):
        for number, name in enumerate(operations(8 * WIDTH)):
            compare(sides, size, number, name)


if __name__ == "__main__":
    main()
