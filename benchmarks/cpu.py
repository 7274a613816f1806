"""The CPU backend next to PyTorch: single operations and fifteen jobs, both sides in one run.

``python benchmarks/cpu.py [name …]`` prints a row for each whose name holds one of the arguments. Both sides take turns of several
calls, the first of which is not counted: it finds the other side's data in the processor's caches, where a program that calls one
library finds its own. Times are medians of the others, in milliseconds: of the processor with one thread, so that other programs
take no part, else of the clock. Each job also runs in a process of its own per side, for its first run and for the
memory that it takes at most beyond what importing takes (with the compiler's library where there is one). Options: ``--threads 1,2`` (one by default), ``--jobs`` or
``--operations`` for one half, ``--jit`` for compiled kernels where llvmlite is installed (NumPy alone otherwise), ``--page`` to
write the tables of both into the documentation.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cpu_jobs import JOBS, Job, Library, classified

#: as many threads as the processes that measure are started with
THREADS = int(os.environ.get("OPENBLAS_NUM_THREADS", "1"))
#: what tells the time of a call
CLOCK = time.thread_time if THREADS == 1 else time.perf_counter
#: seconds that a row is repeated for, and calls of each side that count at least, after two turns that warm up
SECONDS, LEAST_CALLS = 1.0, 5
#: calls of a turn that count, after one that does not: as many as take so many seconds, but no more than these
TURN, MOST_CALLS = 0.02, 10
#: where the tables stand in the documentation
PAGE = Path(__file__).parent.parent / "docs" / "how-fast-and-why.md"
MARKS = ("<!-- benchmarks/cpu.py writes from here -->", "<!-- to here -->")
WORDS = 1 << 20


def fills(t: Library) -> dict[str, Job]:
    """Random numbers: a million each, and draws by weight."""
    weights, rates = t.rand(64, 5000), t.rand(WORDS // 16) * 5
    return {
        "rand": lambda: t.rand(WORDS),
        "randn": lambda: t.randn(WORDS),
        "bernoulli_": lambda: t.empty(WORDS).bernoulli_(0.5),
        "bernoulli of probabilities": lambda: t.bernoulli(weights),
        "exponential_": lambda: t.empty(WORDS).exponential_(),
        "randint": lambda: t.randint(0, 1000, (WORDS,)),
        "randperm": lambda: t.randperm(WORDS),
        "multinomial": lambda: t.multinomial(weights, 1),
        "multinomial with replacement": lambda: t.multinomial(weights, 100, replacement=True),
        "poisson": lambda: t.poisson(rates),
    }


def convolutions(t: Library) -> dict[str, Job]:
    """Convolutions forward."""
    functional = t.nn.functional
    cases = {
        "conv2d 8x32x56 to 64": ((8, 32, 56, 56), (64, 32, 3, 3), {"padding": 1}),
        "conv2d 1x1": ((4, 256, 28, 28), (64, 256, 1, 1), {}),
        "conv2d stride 2": ((1, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
        "depthwise 8x32x56": ((8, 32, 56, 56), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
        "depthwise 4x240x14": ((4, 240, 14, 14), (240, 1, 5, 5), {"padding": 2, "groups": 240}),
        "grouped 4x64x28": ((4, 64, 28, 28), (64, 16, 3, 3), {"padding": 1, "groups": 4}),
    }
    return {
        name: (lambda x=t.randn(shape), w=t.randn(weight), options=options: functional.conv2d(x, w, **options))
        for name, (shape, weight, options) in cases.items()
    }


def operations(t: Library) -> dict[str, Job]:
    """Operations that NumPy has no single function for, and chains that fuse."""
    functional = t.nn.functional
    rows, long, three = t.randn(256, 5000), t.randn(1 << 20), t.randn(3)
    points, image, grid = t.randn(512, 64), t.randn(4, 16, 32, 32), t.rand(4, 32, 32, 2) * 2 - 1
    queries, longer = t.randn(2, 8, 256, 64), t.randn(1 << 24)
    return {
        "add of three elements": lambda: three + three,
        "chain of arithmetic": lambda: (long * 2 + 1).relu() * long - long,
        "chain over 64 MiB": lambda: (longer * 2 + 1).relu() * longer - longer,
        "gelu": lambda: functional.gelu(long),
        "topk": lambda: rows.topk(10).values,
        "kthvalue": lambda: rows.kthvalue(2500).values,
        "median": lambda: rows.median(1).values,
        "sort": lambda: rows.sort().values,
        "cdist": lambda: t.cdist(points, points),
        "grid_sample": lambda: functional.grid_sample(image, grid, align_corners=False),
        "stft": lambda: t.stft(long[: 1 << 17], 512, window=t.ones(512), return_complex=True).abs(),
        "scaled_dot_product_attention": lambda: functional.scaled_dot_product_attention(queries, queries, queries),
        "softmax": lambda: rows.softmax(1),
        "matmul": lambda: points @ points.T,
    }


def separable(t: Library) -> Job:
    """Return the training step of a convolution by channels and one of single places."""
    nn = t.nn
    depthwise = (nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.BatchNorm2d(32), nn.Hardswish())
    model = nn.Sequential(*depthwise, nn.Conv2d(32, 64, 1), nn.BatchNorm2d(64))
    return classified(t, model, t.randn(32, 32, 28, 28), of=lambda y: y.mean((2, 3)))


def steps(t: Library) -> dict[str, Job]:
    """Training steps that are no job of their own."""
    return {"separable convolution step": separable(t)}


# One process


def library(name: str) -> tuple[Library, Callable[[], None]]:
    """Return a library by name, and how to wait for it."""
    if name == "ours":
        import webgpu_torch as ours
        from webgpu_torch_core.record.devices import synchronize

        ours.set_default_device("cpu")
        ours.set_num_threads(THREADS)
        return ours, lambda: synchronize("cpu")
    import torch as pytorch

    pytorch.set_num_threads(THREADS)
    return pytorch, lambda: None


def milliseconds(call: Job, wait: Callable[[], None]) -> float:
    """Return the time of a call and its wait."""
    start = CLOCK()
    result = call()
    wait()
    del result
    return (CLOCK() - start) * 1e3


def turn(call: Job, wait: Callable[[], None]) -> list[float]:
    """Return the times of the calls of a turn that count."""
    times = [milliseconds(call, wait) for _ in range(2)][1:]
    while len(times) < MOST_CALLS and sum(times) < TURN * 1e3:
        times.append(milliseconds(call, wait))
    return times


def compared(jobs: Callable[[Library], dict[str, Job]]) -> Iterator[tuple[str, float, float]]:
    """Yield names and median times of both sides, which take turns of several calls."""
    sides = [library(name) for name in ("ours", "PyTorch")]
    made = [jobs(side) for side, _ in sides]
    for name in made[0]:
        turns: list[list[list[float]]] = [[], []]
        until = time.perf_counter() + SECONDS
        while sum(map(len, turns[0][2:])) < LEAST_CALLS or time.perf_counter() < until:
            for taken, (_, wait), side in zip(turns, sides, made, strict=True):
                taken.append(turn(side[name], wait))
        own, other = (statistics.median(itertools.chain(*taken[2:])) for taken in turns)
        yield name, own, other


def chosen(names: list[str], jobs: dict[str, Any]) -> dict[str, Any]:
    """Return those whose name holds one of some words, all if there is none."""
    return {name: job for name, job in jobs.items() if not names or any(each in name for each in names)}


def operations_of(names: list[str]) -> None:
    """Print the times of operations as lines of JSON."""
    for group in (fills, convolutions, operations, steps):
        for row in compared(lambda t, group=group: chosen(names, group(t))):
            print(json.dumps(row), flush=True)


def job_of(name: str) -> None:
    """Print the times of a job as a line of JSON."""
    for row in compared(lambda t: {name: JOBS[name](t)}):
        print(json.dumps(row), flush=True)


def alone(name: str, side: str) -> None:
    """Print how long the first and the second run take on one side, and how many MiB it needs at most beyond importing."""
    t, wait = library(side)
    milliseconds(lambda: t.randn(3) @ t.randn(3), wait)
    if side == "ours" and os.environ.get("WEBGPU_TORCH_CPU_JIT") != "0":
        from webgpu_torch_backend_cpu.jit.machine import machine

        # The compiler's library is a part of what importing takes, as PyTorch's is.
        machine()
    before = _resident()
    job = JOBS[name](t)
    wait()
    times = [milliseconds(job, wait) for _ in range(4)]
    print(json.dumps([times[0], times[1], max(_peak() - before, 0.0)]))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 2**20


# All of them


class Setting(NamedTuple):
    """What processes that measure are started with: threads of all libraries, and whether kernels are compiled."""

    threads: int
    jit: bool

    def __str__(self) -> str:
        return f"{'[jit]' if self.jit else 'NumPy'}, {self.threads} {'thread' if self.threads == 1 else 'threads'}"


def child(setting: Setting, *arguments: str) -> Iterator[Any]:
    """Yield what another process prints."""
    settings = {name: str(setting.threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    if not setting.jit:
        settings["WEBGPU_TORCH_CPU_JIT"] = "0"
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **settings}) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")


class Table:
    """Rows of Markdown, printed as they come, and the geometric mean of what they say."""

    def __init__(self, *heads: str) -> None:
        self.lines: list[str] = []
        self.ratios: list[float] = []
        self._add(*heads)
        self._add("---", *("--:" for _ in heads[1:]))

    def _add(self, *cells: str) -> None:
        self.lines.append(f"| {' | '.join(cells)} |")
        print(self.lines[-1], flush=True)

    def row(self, name: str, own: float, other: float, *more: str) -> None:
        """Add a row with the ratio of two times."""
        self.ratios.append(own / other)
        self._add(name, f"{own:.3g}", f"{other:.3g}", f"{own / other:.2f}", *more)

    def end(self) -> str:
        """Return the whole text."""
        mean = math.exp(statistics.fmean(map(math.log, self.ratios))) if self.ratios else math.nan
        self._add("geometric mean", "", "", f"{mean:.2f}", *("" for _ in range(self.lines[0].count("|") - 5)))
        return "\n".join(self.lines)


def tables(names: list[str], setting: Setting, halves: tuple[bool, bool]) -> list[str]:
    """Return the tables of jobs and of operations in a setting."""
    found = []
    if halves[0] and chosen(names, JOBS):
        first = f"job, {setting}"
        table = Table(first, "ours ms", "PyTorch ms", "ratio", "first run ms", "PyTorch's", "memory MiB", "PyTorch's")
        for name in chosen(names, JOBS):
            ((_, own, other),) = child(setting, "--job", name)
            sides = [next(iter(child(setting, "--alone", side, "--job", name))) for side in ("ours", "PyTorch")]
            firsts, peaks = ([f"{side[at]:.0f}" for side in sides] for at in (0, 2))
            table.row(name, own, other, *firsts, *peaks)
        found.append(table.end())
    if halves[1]:
        table = Table(f"operation, {setting}", "ours ms", "PyTorch ms", "ratio")
        for row in child(setting, "--rows", *names):
            table.row(*row)
        found.append(table.end())
    return found


def write_page(text: str) -> None:
    """Put the tables into the page of the documentation that shows them."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")


def main() -> None:
    """Do what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", default="1")
    for option in ("--jobs", "--operations", "--page", "--rows", "--jit"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--job")
    parser.add_argument("--alone", choices=("ours", "PyTorch"))
    options = parser.parse_args()
    if options.alone:
        alone(options.job, options.alone)
    elif options.job:
        job_of(options.job)
    elif options.rows:
        operations_of(options.names)
    else:
        halves = options.jobs or not options.operations, options.operations or not options.jobs
        variants = (False, True) if options.page else (options.jit,)
        settings = [Setting(int(count), jit) for count in options.threads.split(",") for jit in variants]
        found = [each for setting in settings for each in tables(options.names, setting, halves)]
        if options.page:
            write_page("\n\n".join(found))


if __name__ == "__main__":
    main()
