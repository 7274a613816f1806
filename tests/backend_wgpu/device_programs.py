"""Hand-written programs for tests of the runtime, standing in for generated ones."""

from __future__ import annotations

import struct
from typing import Any

from webgpu_torch_backend_wgpu.program import Binding, Pass, Program
from webgpu_torch_core.backend.interface import Plan, Step
from webgpu_torch_core.ir.dtypes import dtype, float32
from webgpu_torch_core.ir.expression import constant
from webgpu_torch_core.ir.kernels import Operand, Output, Pointwise, Store

RELU = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x < SIZEu) { y[at.x] = max(x[at.x], 0.0); }
}
"""

#: y = x * parameter 0 + f32(parameter 1: the low word of an int64)
SCALE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> parameters: array<vec4<u32>, 1>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x < SIZEu) {
        y[at.x] = x[at.x] * bitcast<f32>(parameters[0].x) + f32(bitcast<i32>(parameters[0].y));
    }
}
"""

INCREMENT = """
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x < SIZEu) { y[at.x] = y[at.x] + 1.0; }
}
"""

#: first pass: sums of 64 elements to scratch; second: their sum
PARTIAL_SUMS = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> partial: array<f32>;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) at: vec3<u32>) {
    var sum = 0.0;
    for (var i = at.x * 64u; i < min(at.x * 64u + 64u, SIZEu); i++) { sum += x[i]; }
    partial[at.x] = sum;
}
"""
FINAL_SUM = """
@group(0) @binding(0) var<storage, read> partial: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn main() {
    var sum = 0.0;
    for (var i = 0u; i < COUNTu; i++) { sum += partial[i]; }
    y[0] = sum;
}
"""

ADD = """
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x < SIZEu) { y[at.x] = y[at.x] + x[at.x]; }
}
"""

READ_X = Binding("operand", 0, False)
WRITE_Y = Binding("output", 0, True)
PARAMETERS = Binding("parameters", 0, False)
READ_SCRATCH = Binding("scratch", 0, False)
WRITE_SCRATCH = Binding("scratch", 0, True)


def kernel(
    name: str,
    size: int,
    operands: int = 1,
    outputs: int = 0,
    initial: int | None = None,
    parameters: tuple[dtype, ...] = (),
) -> Pointwise:
    """Return a kernel whose only use is to be the key of a hand-written program."""
    store = Store(0, 0, (1,), constant(0.0, float32))
    made = (Output(float32, outputs or size, initial),)
    return Pointwise(tuple(Operand(float32, size) for _ in range(operands)), made, parameters, name, (size,), (store,))


def one_pass(name: str, source: str, size: int, bindings: tuple[Binding, ...] = (READ_X, WRITE_Y)) -> Program:
    """Return a program of one pass over ``size`` elements."""
    return Program((Pass(name, source.replace("SIZE", str(size)), (-(-size // 64), 1, 1), bindings),), ())


def sum_program(size: int) -> Program:
    """Return a two-pass sum through a scratch buffer."""
    count = -(-size // 64)
    first = Pass("partial sums", PARTIAL_SUMS.replace("SIZE", str(size)), (count, 1, 1), (READ_X, WRITE_SCRATCH))
    second = Pass("sum", FINAL_SUM.replace("COUNT", str(count)), (1, 1, 1), (READ_SCRATCH, WRITE_Y))
    return Program((first, second), (count * 4,))


def use(device: Any, programs: dict[Any, Program]) -> None:
    """Make a device take these programs for these kernels."""
    device.compiler.generate = lambda kernel, _: programs[kernel]


def plan(steps: list[Any], externals: int, temporaries: tuple[int, ...] = ()) -> Plan:
    """Return a plan of (kernel, operands, outputs, parameters) tuples and copies."""
    return Plan([Step(*each) if isinstance(each, tuple) else each for each in steps], externals, temporaries)


def upload(device: Any, values: list[float]) -> Any:
    """Return a buffer of float32 values."""
    data = struct.pack(f"<{len(values)}f", *values)
    buffer = device.allocate(len(data))
    device.write(buffer, memoryview(data))
    return buffer


def download(device: Any, buffer: Any, count: int) -> list[float]:
    """Return the first float32 values of a buffer."""
    return list(struct.unpack(f"<{count}f", device.read(buffer, count * 4)))
