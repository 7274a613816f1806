"""Running one kernel on any device over Python lists, and comparing numbers as PyTorch's tests do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from typing import Any

from webgpu_torch_core.backend.interface import Device, Plan, Step
from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.ir.host_bytes import pack, unpack
from webgpu_torch_core.ir.interpreter import run_kernel as interpret_kernel
from webgpu_torch_core.ir.kernels import Kernel

#: relative and absolute tolerance per element type, those of :func:`torch.testing.assert_close`
TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
}  # fmt: skip

# Buffers a kernel must fill completely start with this byte, so that an element it forgets shows.
_UNWRITTEN = b"\xa5"


def host_bytes(numbers: Sequence[Any], kind: dtype) -> bytes:
    """Return numbers as the bytes of a buffer."""
    return bytes(memoryview(pack(numbers, kind)).cast("B")) if numbers else b""


def rounded(numbers: Sequence[Any], kind: dtype) -> list[Any]:
    """Return numbers as a buffer of a type holds them."""
    return unpack(host_bytes(numbers, kind), kind) if numbers else []


def buffer_with(device: Device, numbers: Sequence[Any], kind: dtype) -> Any:
    """Return a new buffer holding numbers."""
    data = host_bytes(numbers, kind)
    buffer = device.allocate(max(len(data), 1))
    if data:
        device.write(buffer, memoryview(data))
    return buffer


def numbers_in(device: Device, buffer: Any, count: int, kind: dtype) -> list[Any]:
    """Return the first ``count`` elements of a buffer."""
    return unpack(bytes(device.read(buffer, count * kind.itemsize)), kind) if count else []


def single_step_plan(kernel: Kernel) -> Plan:
    """Return a plan of one kernel: externals are its operands, then the outputs that start as no operand."""
    outputs = _places(kernel)
    externals = max((*outputs, len(kernel.operands) - 1), default=-1) + 1
    step = Step(kernel, tuple(range(len(kernel.operands))), outputs, tuple(range(len(kernel.parameters))))
    return Plan((step,), externals, ())


def _places(kernel: Kernel) -> tuple[int, ...]:
    """Return the buffer of each output: its operand's, or the next one after the operands."""
    free = count(len(kernel.operands))
    return tuple(next(free) if output.initial is None else output.initial for output in kernel.outputs)


def run_kernel(
    device: Device, kernel: Kernel, inputs: Sequence[Sequence[Any]], parameters: Sequence[float | int] = ()
) -> list[list[Any]]:
    """Return the outputs of one kernel, each as a list of Python numbers.

    ``inputs`` has one list per operand of the kernel, ``parameters`` one number per parameter. An output with
    ``initial`` shares that operand's buffer, as in the plans that the core makes.

    Raises:
        ValueError: a list does not have its operand's number of elements.
        AssertionError: the kernel changed an operand that is no output.
    """
    check_inputs(kernel, inputs)
    plan = single_step_plan(kernel)
    buffers = [buffer_with(device, each, operand.dtype) for each, operand in zip(inputs, kernel.operands, strict=True)]
    for output in kernel.outputs:
        if output.initial is None:
            nbytes = max(output.numel * output.dtype.itemsize, 1)
            buffers.append(device.allocate(nbytes))
            device.write(buffers[-1], memoryview(_UNWRITTEN * nbytes))
    device.run(plan, buffers, list(parameters))
    places = _places(kernel)
    for index, (values, operand) in enumerate(zip(inputs, kernel.operands, strict=True)):
        nbytes = operand.numel * operand.dtype.itemsize
        if (
            index not in places
            and nbytes
            and bytes(device.read(buffers[index], nbytes)) != host_bytes(values, operand.dtype)
        ):
            raise AssertionError(f"{kernel.name} on {device.name}: operand {index} was changed, but it is no output")
    return [
        numbers_in(device, buffers[place], output.numel, output.dtype)
        for place, output in zip(places, kernel.outputs, strict=True)
    ]


def check_inputs(kernel: Kernel, inputs: Sequence[Sequence[Any]]) -> None:
    """Raise ValueError unless there is one list of the right length per operand."""
    have, want = [len(each) for each in inputs], [each.numel for each in kernel.operands]
    if have != want:
        raise ValueError(f"{kernel.name}: the operands have {want} elements, the inputs {have}")


def interpret(
    kernel: Kernel, inputs: Sequence[Sequence[Any]], parameters: Sequence[float | int] = ()
) -> list[list[Any]]:
    """Return what the definition of the kernel gives: the interpreter's outputs."""
    check_inputs(kernel, inputs)
    operands = [rounded(each, operand.dtype) for each, operand in zip(inputs, kernel.operands, strict=True)]
    outputs = [[0] * each.numel if each.initial is None else operands[each.initial] for each in kernel.outputs]
    interpret_kernel(kernel, operands, outputs, list(parameters))
    return [rounded(each, output.dtype) for each, output in zip(outputs, kernel.outputs, strict=True)]


def is_close(actual: Any, expected: Any, relative: float, absolute: float) -> bool:
    """Return ``abs(actual - expected) <= absolute + relative * abs(expected)``; NaN equals NaN."""
    if actual == expected:
        return True
    if actual != actual or expected != expected:
        return actual != actual and expected != expected
    if math.isinf(actual) or math.isinf(expected):
        return False
    return abs(actual - expected) <= absolute + relative * abs(expected)


def assert_close(
    actual: Sequence[Any], expected: Sequence[Any], kind: dtype, what: str = "", relative: float | None = None,
    absolute: float | None = None,
) -> None:  # fmt: skip
    """Compare two lists of numbers of one type with the tolerances of :func:`torch.testing.assert_close`.

    Raises:
        AssertionError: the lengths differ or elements do; the message names the first of them.
    """
    if len(actual) != len(expected):
        raise AssertionError(f"{what}: expected {len(expected)} elements, got {len(actual)}")
    default = TOLERANCES.get(kind.name, (0.0, 0.0))
    relative = default[0] if relative is None else relative
    absolute = default[1] if absolute is None else absolute
    pairs = enumerate(zip(actual, expected, strict=True))
    wrong = [(index, a, b) for index, (a, b) in pairs if not is_close(a, b, relative, absolute)]
    if wrong:
        some = "; ".join(f"[{index}] is {a!r}, expected {b!r}" for index, a, b in wrong[:5])
        raise AssertionError(f"{what}: {len(wrong)} of {len(expected)} {kind.name} elements differ: {some}")
