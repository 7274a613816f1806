"""Which of two installed WebGPU implementations is faster: measured once per adapter, driver and library, and kept.

Both run the same four programs, each implementation in a process of its own: a product of halves, which may reach matrix
units, a product of float32 numbers, additions that memory limits, and many small kernels, which the host limits. Dawn is
taken where it is faster on the (geometric) average.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

from ..disk_cache import DiskCache
from .interface import Adapter

#: how many times as fast as wgpu-native Dawn must be on the average, which is what is measured twice the same
_FASTER = 1.1
_MEASURE = """
import json, sys, time
import webgpu_torch_core as torch
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.gpu.natives import runtime_named
from webgpu_torch_core.backend.plugins import registry
from webgpu_torch_core.record.devices import device, synchronize

registry.load()
registry.backends["webgpu"] = WgpuBackend(runtime_named(sys.argv[1]))
place = device("webgpu")

def seconds(work, least=0.2):
    best, turn, end = 1e9, 0, time.perf_counter() + least
    # The first turn compiles; what is short is repeated more often, because the host is not always as quick.
    while turn < 4 or time.perf_counter() < end:
        start = time.perf_counter()
        kept = work()
        synchronize(place)
        best = min(best, time.perf_counter() - start) if turn else 1e9
        turn += 1
    return best

single = torch.ones((2048, 2048), device=place)
halves, small = single.to(torch.float16), single[:8, :8] * 1
# Long enough for the clocks of a card that saved energy.
seconds(lambda: [single @ single for _ in range(8)], 0.7)
found = {
    "products of halves": seconds(lambda: [halves @ halves for _ in range(8)]),
    "products of float32": seconds(lambda: [single @ single for _ in range(8)]),
    "sums": seconds(lambda: [single + number for number in range(16)]),
    "small kernels": seconds(lambda: [small @ small for _ in range(64)]),
}
print(json.dumps(found))
"""


class Choices:
    """On which adapters, by the names that Dawn gives them, one Dawn library was taken, and why: known without wgpu-native."""

    def __init__(self, library: str) -> None:
        self._cache = DiskCache("runtime", "dawn", "taken")
        self._key = file_identity(library)

    def _kept(self) -> dict[str, str]:
        found = self._cache.get(self._key)
        told = found if isinstance(found, dict) else {}
        return {name: why for name, why in told.items() if isinstance(why, str)}

    def any(self) -> bool:
        """Return whether it was taken anywhere, so that it may be loaded."""
        return bool(self._kept())

    def why(self, adapter: Adapter) -> str | None:
        """Return why it was taken on an adapter, None where it was not."""
        return self._kept().get(_identity(adapter))

    def take(self, adapter: Adapter, why: str) -> None:
        """Keep that it is taken on an adapter."""
        self._cache.put(self._key, {**self._kept(), _identity(adapter): why})


def _identity(adapter: Adapter) -> str:
    return f"{adapter.vendor}-{adapter.device}-{adapter.description}-{adapter.api}"


def file_identity(library: str) -> str:
    """Return a library's path, and what changes with its file."""
    file = Path(library).stat() if Path(library).is_file() else None
    return f"{library} {file.st_size} {file.st_mtime_ns}" if file else library


def faster_runtime(adapter: Adapter, library: str) -> tuple[str, str]:
    """Return which implementation is faster on an adapter, ``"wgpu"`` or ``"dawn"``, and why: what measuring both gave."""
    if adapter.kind == "cpu":
        return "wgpu", "the default where software computes"
    cache = DiskCache("runtime", f"{adapter.vendor}-{adapter.device}", f"{adapter.description}-{adapter.api}")
    key = file_identity(library)
    found = cache.get(key)
    if not (isinstance(found, list) and len(found) == 2 and all(isinstance(each, str) for each in found)):
        found = list(_compared())
        cache.put(key, found)
    return found[0], found[1]


def _compared() -> tuple[str, str]:
    times: list[dict[str, float]] = []
    for name in ("wgpu", "dawn"):
        try:
            times.append(measured(name))
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return "wgpu", f"the self-test of {name} failed: {error}"
    gains = {each: times[0][each] / times[1][each] for each in times[0]}
    average = math.prod(gains.values()) ** (1 / len(gains))
    told = ", ".join(f"{each} {gain:.2f}" for each, gain in gains.items())
    name = "dawn" if average >= _FASTER else "wgpu"
    return name, f"measured here: Dawn is {average:.2f} times as fast ({told})"


def measured(name: str) -> dict[str, float]:
    """Return the seconds that an implementation takes for each program.

    Raises:
        ValueError: it did not get to their end.
    """
    command = [sys.executable, "-c", _MEASURE, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1])
    return {each: float(seconds) for each, seconds in json.loads(done.stdout).items()}
