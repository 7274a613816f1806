"""Measure built-in and own WGSL functions on an adapter against float64: the table of ``info --numerics``."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence

from webgpu_torch_core.ir.scalar_math import round_to_float32

from .functions import FUNCTIONS, Function, prelude
from .gpu.interface import DISPATCH, Gpu, GpuError, PipelineRequest

_MODULE = """{prelude}
{bindings}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let i = id.x;
  if (i >= arrayLength(&result)) {{ return; }}
{loads}
  result[i] = {expression};
}}
"""


def evaluate(
    gpu: Gpu,
    expression: str,
    inputs: Sequence[tuple[str, bytes]],
    result_type: str,
    names: Sequence[str],
    count: int,
    instead: Mapping[str, Function] | None = None,
) -> bytes:
    """Compute a WGSL expression of a, b, c, … for ``count`` elements and return the bytes of the results.

    ``inputs`` gives the WGSL type and the data of each letter; ``names`` the helper functions that the expression
    uses, for which those of ``instead`` stand. Types must be host-shareable: ``f32``, ``i32``, ``u32``, ``i64``, ``vec2<u32>``, ``vec4<u32>``.

    Raises:
        GpuError: the implementation refused it.
    """
    letters = "abcdefgh"[: len(inputs)]
    bindings = [
        f"@group(0) @binding({k + 1}) var<storage, read> input_{letter}: array<{kind}>;"
        for k, (letter, (kind, _)) in enumerate(zip(letters, inputs, strict=True))
    ]
    bindings.insert(0, f"@group(0) @binding(0) var<storage, read_write> result: array<{result_type}>;")
    source = _MODULE.format(
        prelude=prelude(names, instead),
        bindings="\n".join(bindings),
        loads="\n".join(f"  let {letter} = input_{letter}[i];" for letter in letters),
        expression=expression,
    )
    size = {"f32": 4, "i32": 4, "u32": 4, "i64": 8, "vec2<u32>": 8, "vec4<u32>": 16}[result_type] * count
    buffers = [gpu.own(gpu.buffer(size))]
    for _, data in inputs:
        buffers.append(gpu.own(gpu.buffer(len(data))))
        gpu.write(buffers[-1].handle, 0, data)
    layout = gpu.layout(("storage", *["read-only-storage"] * len(inputs)))
    made = gpu.pipelines([PipelineRequest("evaluate", source, layout, False)])[0]
    if isinstance(made, GpuError):
        raise made
    pipeline = gpu.own(made)
    sizes = [size, *[len(data) for _, data in inputs]]
    group = gpu.own(gpu.group(layout, [(each.handle, 0, n) for each, n in zip(buffers, sizes, strict=True)]))
    work = gpu.own(gpu.record((DISPATCH, pipeline.handle, group.handle, (count + 63) // 64, 1, 1)))
    gpu.submit(work.handle)
    result = bytearray(size)
    gpu.read(buffers[0].handle, 0, memoryview(result))
    error = gpu.error()
    if error is not None:
        raise error
    return bytes(result)


class Row:
    """One line of the table: the largest error in ULP of a built-in and of our function, and our documented bound."""

    __slots__ = ("bound", "builtin", "builtin_error", "name", "own_error", "worst_argument")

    def __init__(
        self, name: str, builtin: str, builtin_error: float, own_error: float, bound: float, worst_argument: float
    ) -> None:
        self.name = name
        self.builtin = builtin
        self.builtin_error = builtin_error
        self.own_error = own_error
        self.bound = bound
        self.worst_argument = worst_argument

    def __repr__(self) -> str:
        return (
            f"{self.name}: built-in {self.builtin_error:.3g} ULP, own {self.own_error:.3g} ULP"
            f" (bound {self.bound:g}, worst at {self.worst_argument!r})"
        )


_Case = tuple[str, str, Callable[..., float], tuple[tuple[float, float], ...]]

# Name, built-in expression, float64 reference, and the interval of each argument.
_CASES: tuple[_Case, ...] = (
    ("exp", "exp(a)", math.exp, ((-87.0, 88.7),)),
    ("exp2", "exp2(a)", lambda x: 2.0**x, ((-126.0, 127.9),)),
    ("log", "log(a)", math.log, ((1e-6, 3.0),)),
    ("log2", "log2(a)", math.log2, ((1e-6, 3.0),)),
    ("sin", "sin(a)", math.sin, ((-30000.0, 30000.0),)),
    ("cos", "cos(a)", math.cos, ((-30000.0, 30000.0),)),
    ("tan", "tan(a)", math.tan, ((-30000.0, 30000.0),)),
    ("tanh", "tanh(a)", math.tanh, ((-10.0, 10.0),)),
    ("sinh", "sinh(a)", math.sinh, ((-88.0, 88.0),)),
    ("cosh", "cosh(a)", math.cosh, ((-88.0, 88.0),)),
    ("asinh", "asinh(a)", math.asinh, ((-100.0, 100.0),)),
    ("acosh", "acosh(a)", math.acosh, ((1.0, 100.0),)),
    ("atanh", "atanh(a)", math.atanh, ((-0.9999, 0.9999),)),
    ("asin", "asin(a)", math.asin, ((-1.0, 1.0),)),
    ("acos", "acos(a)", math.acos, ((-1.0, 0.9999),)),
    ("atan", "atan(a)", math.atan, ((-10.0, 10.0),)),
    ("atan2", "atan2(a, b)", math.atan2, ((-4.0, 4.0), (-4.0, 4.0))),
    ("pow", "pow(a, b)", math.pow, ((0.01, 50.0), (-18.0, 18.0))),
    ("sqrt", "sqrt(a)", math.sqrt, ((1e-6, 1e6),)),
    ("rsqrt", "inverseSqrt(a)", lambda x: 1.0 / math.sqrt(x), ((1e-6, 1e6),)),
    ("divide", "a / b", lambda x, y: x / y, ((-100.0, 100.0), (1e-3, 100.0))),
    ("fmod", "a % b", math.fmod, ((-1000.0, 1000.0), (0.1, 10.0))),
)


def ulp_error(got: float, expected: float) -> float:
    """Return ``|got - expected|`` in units of the float32 spacing at ``expected``; NaN against a number is infinite."""
    if got == expected or (math.isnan(got) and math.isnan(expected)):
        return 0.0
    if not (math.isfinite(got) and math.isfinite(expected)):
        return math.inf
    spacing = 2.0 ** (max(math.frexp(expected)[1], -125) - 24)
    return abs(got - expected) / spacing


def _points(interval: tuple[float, float], count: int, salt: int) -> list[float]:
    """Low-discrepancy points, a third of them crowded towards zero, where relative errors are worst."""
    low, high = interval
    points = []
    for k in range(count):
        fraction = (k * 0.6180339887498949 + salt * 0.7548776662466927) % 1.0
        value = low + (high - low) * fraction
        if low < 0.0 < high and k % 3 == 0:
            value *= 10.0 ** (-8.0 * ((k * 0.569840290998) % 1.0))
        points.append(min(max(round_to_float32(value), low), high))
    return points


def numerics_table(gpu: Gpu, count: int = 4096) -> list[Row]:
    """Return a :class:`Row` for each function of which WGSL has a built-in, measured at ``count`` points."""
    rows = []
    for name, builtin, reference, intervals in _CASES:
        columns = [[round_to_float32(v) for v in _points(interval, count, k)] for k, interval in enumerate(intervals)]
        inputs = [("f32", struct.pack(f"{count}f", *column)) for column in columns]
        own = f"wt_{name}({', '.join('abcd'[: len(columns)])})"
        expected = [reference(*arguments) for arguments in zip(*columns, strict=True)]
        errors = []
        for expression, names in ((builtin, ()), (own, (f"wt_{name}",))):
            data = evaluate(gpu, expression, inputs, "f32", names, count)
            got = struct.unpack(f"{count}f", data)
            errors.append([ulp_error(*pair) for pair in zip(got, expected, strict=True)])
        worst = max(range(count), key=errors[1].__getitem__)
        bound = FUNCTIONS[f"wt_{name}"].accuracy or 0.0
        rows.append(Row(name, builtin, max(errors[0]), errors[1][worst], bound, columns[0][worst]))
    return rows
