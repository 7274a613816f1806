"""What the benchmarks share: timing on both sides, side by side, in one run."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

from webgpu_torch_core.record.devices import synchronize

#: seconds of load before the first timing of a process, and before each: a GPU that idles raises its clocks late. Under
#: Vulkan an H200 stays at a fifth of its clock for about the first second of work, where CUDA raises it at once.
FIRST_LOAD, LOAD = 2.0, 0.25
_loaded: list[float] = []


def seconds(call: Callable[[], Any], wait: Callable[[], Any], repeats: int = 10, batch: int = 5) -> float:
    """Return the median time of one call: ``batch`` calls between waits, ``repeats`` times, after a warm-up."""
    until = time.perf_counter() + (LOAD if _loaded else FIRST_LOAD)
    for number in itertools.count():
        call()
        wait()
        if number >= 2 and time.perf_counter() > until:
            break
    _loaded.append(until)
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(batch):
            call()
        wait()
        found.append((time.perf_counter() - start) / batch)
    return statistics.median(found)


def device() -> str:
    """Return the device measured: ``WEBGPU_TORCH_DEVICE``, else webgpu."""
    import os

    return os.environ.get("WEBGPU_TORCH_DEVICE", "webgpu")


def wait_ours() -> None:
    """Run what is pending here and wait for it."""
    synchronize(device())


def peer() -> Any:
    """Return PyTorch with CUDA, TF32 off, or None where there is none."""
    try:
        import torch as pytorch
    except ImportError:
        return None
    if not pytorch.cuda.is_available():
        return None
    pytorch.backends.cuda.matmul.allow_tf32 = False
    pytorch.backends.cudnn.allow_tf32 = False
    return pytorch


def report(name: str, ours: float, theirs: float | None, amount: float, unit: str) -> None:
    """Print one line: our time and rate, PyTorch's, and the ratio of rates."""
    line = f"{name:34} {ours * 1e3:9.3f} ms {amount / ours:9.2f} {unit}"
    if theirs is not None:
        line += f" | PyTorch {theirs * 1e3:9.3f} ms {amount / theirs:9.2f} {unit} | ratio {theirs / ours:5.2f}"
    print(line, flush=True)
