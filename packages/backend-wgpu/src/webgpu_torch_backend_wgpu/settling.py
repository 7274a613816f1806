"""Pipelines of their own for kernels whose sizes are there to stay, compiled beside what runs.

A plan goes on with the pipelines that its kernels share with other sizes until those that suit its sizes only are there: no
call waits for them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from webgpu_torch_core.ir.kernels import Kernel

from .errors import KernelError
from .gpu.interface import GpuError
from .program import Binding, Pass, Program

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from .modules import Compiler

#: threads that compile beside others: what runs needs some, too
_THREADS = max(1, min(4, (os.cpu_count() or 1) // 2))
#: what identifies a pipeline
Key = tuple[str, tuple[Binding, ...]]


class Beside:
    """Compiles in threads of its own for one compiler, which takes what they made when it next has time."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._threads: ThreadPoolExecutor | None = None
        self._arrived: deque[tuple[dict[Kernel, Program], dict[Key, tuple[int, int]]]] = deque()

    def begin(self, kernels: Iterable[Kernel]) -> Future[bool]:
        """Have kernels get pipelines of their own; return what tells when, and whether all of them did."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(_THREADS, "webgpu-torch-compiler")
        return self._threads.submit(self._make, tuple(dict.fromkeys(kernels)))

    def _make(self, kernels: tuple[Kernel, ...]) -> bool:
        programs: dict[Kernel, Program] = {}
        missing: dict[Key, Pass] = {}
        try:
            for kernel in kernels:
                program = self._compiler.own_program(kernel)
                if program is not None:
                    programs[kernel] = program
                    missing.update({(each.source, each.bindings): each for each in program.passes})
        except KernelError:
            return False
        missing = {key: each for key, each in missing.items() if not self._compiler.has(key)}
        gpu = self._compiler.gpu
        made: dict[Key, tuple[int, int]] = {}
        for key, each in missing.items():
            request = self._compiler.request(each)
            found = gpu.pipeline_beside(request)
            if not isinstance(found, GpuError):
                made[key] = found, request.layout
        self._arrived.append((programs, made))
        return len(made) == len(missing)

    def take(self) -> None:
        """Give the compiler what has been made."""
        while self._arrived:
            programs, made = self._arrived.popleft()
            self._compiler.adopt(programs, made)
