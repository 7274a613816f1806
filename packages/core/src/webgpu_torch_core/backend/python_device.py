"""Device ``python``: kernels run by the interpreter, one recorded operation at a time. Slow on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.dtypes import dtype
from ..ir.host_bytes import pack, unpack
from ..ir.interpreter import run_kernel
from ..ir.kernels import FORMS, Attention
from ..record.runs import Run
from .interface import HOST, INTERFACE_VERSION, Backend, Copy, Device, Plan


class PythonBuffer:
    """Bytes on the host, counted by their device."""

    __slots__ = ("data", "device")

    def __init__(self, device: PythonDevice, nbytes: int) -> None:
        self.data = bytearray(nbytes)
        self.device = device
        device.allocated += nbytes
        device.buffers += 1

    def __del__(self) -> None:
        self.device.allocated -= len(self.data)
        self.device.buffers -= 1


class PythonDevice(Device):
    """Interprets kernels over lists of Python numbers."""

    name = "python"
    forms = frozenset((*FORMS, Attention))
    fuses = False
    places = True

    def __init__(self) -> None:
        self.allocated = 0
        self.buffers = 0

    def allocate(self, nbytes: int) -> PythonBuffer:
        return PythonBuffer(self, nbytes)

    def write(self, buffer: PythonBuffer, data: memoryview) -> None:
        buffer.data[: len(data)] = data

    def read(self, buffer: PythonBuffer, nbytes: int) -> bytearray:
        return bytearray(buffer.data[:nbytes])

    def run(self, plan: Plan, externals: Sequence[Any], parameters: Sequence[float | int]) -> None:
        self.advance(Run(plan, externals, parameters))

    def advance(self, run: Run) -> None:
        if run.table is None:
            run.table = [*run.externals, *(self.allocate(nbytes) for nbytes in run.plan.temporaries)]
        table, parameters = run.table, run.parameters
        for position in run.remaining():
            step = run.plan.steps[position]
            if isinstance(step, Copy):
                table[step.target].data[: step.nbytes] = table[step.source].data[: step.nbytes]
                continue
            kernel = step.kernel
            outputs = [
                _numbers(table[number], each.dtype, each.numel)
                for number, each in zip(step.outputs, kernel.outputs, strict=True)
            ]
            shared = dict(zip(step.outputs, outputs, strict=True))
            operands = [
                shared[number] if number in shared else _numbers(table[number], each.dtype, each.numel)
                for number, each in zip(step.operands, kernel.operands, strict=True)
            ]
            run.begun = False
            run_kernel(kernel, operands, outputs, [parameters[number] for number in step.parameters])
            run.begun = True
            for number, values, each in zip(step.outputs, outputs, kernel.outputs, strict=True):
                data = bytes(memoryview(pack(values, each.dtype)).cast("B")) if values else b""
                table[number].data[: len(data)] = data

    def advance_timed(self, run: Run, report: Callable[[str, float, str], None]) -> None:
        self.advance(run)

    def synchronize(self) -> None:
        """Return at once: every run is finished when it returns."""

    def description(self) -> dict[str, str]:
        return {"adapter": "Python interpreter"}

    def memory_allocated(self) -> int:
        return self.allocated

    def memory_reserved(self) -> int:
        return self.allocated

    def live_buffers(self) -> int:
        return self.buffers


def _numbers(buffer: PythonBuffer, kind: dtype, count: int) -> list[Any]:
    return unpack(bytes(buffer.data[: count * kind.itemsize]), kind)


class PythonBackend(Backend):
    """The interpreter as a backend; always there."""

    device_type = "python"
    interface_version = INTERFACE_VERSION
    facts = HOST

    def device_count(self) -> int:
        return 1

    def open(self, index: int) -> PythonDevice:
        return PythonDevice()
