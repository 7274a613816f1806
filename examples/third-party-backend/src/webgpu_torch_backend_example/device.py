"""The device: byte arrays as buffers, and plans run step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from webgpu_torch_core.backend.interface import Copy, Device, Plan
from webgpu_torch_core.ir.dtypes import bool_, dtype, float32, int32, int64
from webgpu_torch_core.ir.kernels import Kernel

from .printer import print_kernel, scope


@lru_cache(maxsize=1024)
def compile_kernel(kernel: Kernel) -> Callable[..., None]:
    """Return ``function(operands, outputs, parameters)``; equal kernels are compiled once."""
    source, constants = print_kernel(kernel)
    names: dict[str, Any] = {**scope, **constants}
    exec(compile(source, f"<{kernel.name}>", "exec"), names)
    return names["kernel"]


def typed(buffer: bytearray, numel: int, kind: dtype) -> memoryview:
    """Return the elements of a buffer; what is stored there lands in the buffer."""
    return memoryview(buffer)[: numel * kind.itemsize].cast(kind.format)


class ExampleDevice(Device):
    """Runs every kernel as Python source."""

    name = "example:0"
    dtypes = frozenset((bool_, int32, int64, float32))

    def allocate(self, nbytes: int) -> bytearray:
        return bytearray(nbytes)

    def write(self, buffer: bytearray, data: memoryview) -> None:
        buffer[: len(data)] = data

    def read(self, buffer: bytearray, nbytes: int) -> bytearray:
        return buffer[:nbytes]

    def run(self, plan: Plan, externals: Sequence[bytearray], parameters: Sequence[float | int]) -> None:
        table = [*externals, *map(bytearray, plan.temporaries)]
        for step in plan.steps:
            if isinstance(step, Copy):
                table[step.target][: step.nbytes] = table[step.source][: step.nbytes]
                continue
            kernel = step.kernel
            operands = [
                typed(table[place], each.numel, each.dtype)
                for place, each in zip(step.operands, kernel.operands, strict=True)
            ]
            outputs = [
                typed(table[place], each.numel, each.dtype)
                for place, each in zip(step.outputs, kernel.outputs, strict=True)
            ]
            compile_kernel(kernel)(operands, outputs, [parameters[place] for place in step.parameters])

    def synchronize(self) -> None:
        """Return at once: a run is finished when it returns."""

    def source(self, kernel: Kernel) -> str:
        return print_kernel(kernel)[0]

    def description(self) -> dict[str, str]:
        return {"adapter": "Python loops"}
