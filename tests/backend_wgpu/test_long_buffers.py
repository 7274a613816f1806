"""Buffers longer than an adapter binds at once, and memory of workgroups: kernels keep an adapter's limits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from codegen_harness import harness
from device_programs import plan
from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.codegen import generate
from webgpu_torch_backend_wgpu.gpu.interface import GpuError, PipelineRequest
from webgpu_torch_backend_wgpu.modules import kinds_of
from webgpu_torch_core.ir.dtypes import bool_, float16, float32, int32, int64, uint8
from webgpu_torch_core.ir.expression import cast, coordinate, load, load_at, reduced
from webgpu_torch_core.ir.kernels import Kernel, Operand, Output, Pointwise, Reduction, RowProgram, Scatter, Store
from webgpu_torch_core.ir.monoids import monoid
from webgpu_torch_core.operations.indexing.index_checks import reporting, wrapped_position

#: bytes that the adapter of these tests binds at once
BINDING = 1 << 12
NUMPY = {"uint8": np.uint8, "int32": np.int32, "float32": np.float32, "float16": np.float16}


@pytest.fixture
def short(opened: Any) -> Any:
    """Return a device that binds few bytes at once."""
    opened.replayer.binding_bytes = BINDING
    opened.compiler.capabilities = opened.compiler.capabilities.replace(binding_bytes=BINDING)
    return opened


def run(device: Any, kernel: Kernel, operands: list[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a kernel."""
    buffers = []
    for each in operands:
        buffers.append(device.allocate(each.nbytes))
        device.write(buffers[-1], memoryview(each.tobytes()))
    targets: list[int] = []
    for output in kernel.outputs:
        if output.initial is None:
            buffers.append(device.allocate(output.numel * output.dtype.itemsize))
        targets.append(len(buffers) - 1 if output.initial is None else output.initial)
    device.run(plan([(kernel, tuple(range(len(operands))), tuple(targets), ())], len(buffers)), buffers, [])
    kinds = [(each.numel, np.dtype(NUMPY[each.dtype.name])) for each in kernel.outputs]
    return [
        np.frombuffer(device.read(buffers[target], numel * kind.itemsize), kind)
        for target, (numel, kind) in zip(targets, kinds, strict=True)
    ]


@pytest.mark.parametrize("kind", [float32, float16, uint8], ids=str)
def test_whole_groups_in_parts(short: Any, kind: Any) -> None:
    count = 9000
    x = (np.arange(count) % 100).astype(NUMPY[kind.name])
    wide = int32 if kind is uint8 else float32
    value = cast(cast(load(0, 0, (1,), kind), wide) + 1, kind)
    kernel = Pointwise(
        (Operand(kind, count),), (Output(kind, count, None),), (), "step", (count,), (Store(0, 0, (1,), value),)
    )
    (found,) = run(short, kernel, [x])
    np.testing.assert_array_equal(found, x + 1)


@pytest.mark.parametrize("kind", [float32, uint8], ids=str)
def test_single_elements_in_parts(short: Any, kind: Any) -> None:
    """Every third element of a long buffer, in place: packed ones change their own bits of words in several parts."""
    count, step = 12000, 3
    x = (np.arange(count) % 100).astype(NUMPY[kind.name])
    wide = int32 if kind is uint8 else float32
    value = cast(cast(load(0, 1, (step,), kind), wide) * 2, kind)
    kernel = Pointwise(
        (Operand(kind, count),), (Output(kind, count, 0),), (), "step", (count // step,), (Store(0, 1, (step,), value),)
    )
    (found,) = run(short, kernel, [x])
    expected = x.copy()
    expected[1::step] *= 2
    np.testing.assert_array_equal(found, expected)


def test_gather_from_parts(short: Any) -> None:
    table = np.arange(5000, dtype=np.float32)
    count = 300
    index = cast(coordinate(0) * 16 + 3, int64)
    kernel = Pointwise(
        (Operand(float32, 5000),), (Output(float32, count, None),), (), "gather", (count,),
        (Store(0, 0, (1,), load_at(0, index, float32)),),
    )  # fmt: skip
    (found,) = run(short, kernel, [table])
    np.testing.assert_array_equal(found, table[3::16][:count])


def test_single_bytes_are_scattered_into_parts(short: Any) -> None:
    count, entries = 12000, 700
    index = (np.random.default_rng(0).permutation(count)[:entries]).astype(np.int32)
    values, x = (np.arange(entries) % 251).astype(np.uint8), (np.arange(count) % 100).astype(np.uint8)
    kernel = Scatter(
        (Operand(uint8, count), Operand(int32, entries), Operand(uint8, entries)), (Output(uint8, count, 0),), (), "put", (),
        (entries,), cast(load(1, 0, (1,), int32), int64), load(2, 0, (1,), uint8), None,
    )  # fmt: skip
    (found,) = run(short, kernel, [x, index, values])
    x[index] = values
    np.testing.assert_array_equal(found, x)


def test_more_elements_than_positions_are_refused() -> None:
    count = 5 << 30
    value = load(0, 0, (1,), uint8)
    kernel = Pointwise(
        (Operand(uint8, count),), (Output(uint8, count, None),), (), "long", (count,), (Store(0, 0, (1,), value),)
    )
    with pytest.raises(NotImplementedError, match=f"'long' .*{count} elements.*up to 4278190080"):
        generate(kernel, harness().native)


@pytest.mark.usefixtures("webgpu")
def test_states_of_rows_fit_workgroup_memory() -> None:
    """Sums of three types and a position, each with workgroup memory of its own, by 1024 threads where there is room."""
    rows, length = 4, 8000
    element = load(0, 0, (length, 1), float32)
    reductions = (
        Reduction(monoid("sum", float32), element),
        Reduction(monoid("sum", int64), cast(element, int64)),
        Reduction(monoid("sum", int32), cast(element, int32)),
        Reduction(monoid("argmaximum", float32), element),
    )
    kernel = RowProgram(
        (Operand(float32, rows * length),), (Output(float32, rows, None),), (), "sums", (rows,), (length,), reductions,
        (Store(0, 0, (1,), reduced(0, float32)),), (),
    )  # fmt: skip
    for nbytes in (1 << 14, 1 << 15):
        capabilities = harness().native.replace(invocations=1024, workgroup_bytes=nbytes)
        for entry in generate(kernel, capabilities).passes:
            arrays = re.findall(r"var<workgroup> \w+: array<([\w<>]+), (\d+)>;", entry.source)
            sizes = {"f32": 4, "u32": 4, "i32": 4, "i64": 8, "vec2<u32>": 8}
            assert sum(sizes[kind] * int(count) for kind, count in arrays) <= nbytes


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("emulate", [False, True])
@given(st.integers(2**31 - 9, 2**32 - 1), st.data())
def test_positions_of_long_dimensions(emulate: bool, size: int, data: st.DataObject) -> None:
    """Positions from both ends of dimensions about and beyond 2**31, and those outside, which are kept inside."""
    edges = (0, size, -size, 2**31, -(2**31))
    near = st.sampled_from(edges).flatmap(lambda edge: st.integers(edge - 3, edge + 3))
    positions = data.draw(st.lists(near | st.integers(-size, size - 1), min_size=8, max_size=8))
    given_position = load(0, 0, (1,), int64)
    inside = wrapped_position(given_position, size)
    reported = reporting(cast(inside, int64), given_position, inside, size, True)
    kernel = Pointwise(
        (Operand(int64, 8),), (Output(int64, 8, None), Output(bool_, 8, None)), (), "positions", (8,),
        (Store(0, 0, (1,), reported.arguments[0]), Store(1, 0, (1,), reported.arguments[1])),
    )  # fmt: skip
    found, outside = harness().run(kernel, [torch.tensor(positions)], emulate=emulate)
    inner = [-size <= each < size for each in positions]
    assert outside.tolist() == [not each for each in inner]
    wanted = [each + size if each < 0 else each for each in positions]
    assert found[torch.tensor(inner)].tolist() == [each for each, fits in zip(wanted, inner, strict=True) if fits]
    assert ((found >= 0) & (found < size)).all()


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("count", [3 << 30, (1 << 32) - (1 << 24)])
def test_long_dimensions_are_flipped(count: int) -> None:
    """Positions that count down from beyond 2**31 are text that a GPU's compiler takes."""
    h = harness()
    value = load_at(0, coordinate(0) * -1 + (count - 1), uint8)
    kernel = Pointwise(
        (Operand(uint8, count),), (Output(uint8, 64, None),), (), "flip", (64,), (Store(0, 0, (1,), value),)
    )
    for capabilities in (h.native, h.small):
        for each in generate(kernel, capabilities.replace(binding_bytes=2**31 - 256)).passes:
            (made,) = h.gpu.pipelines([PipelineRequest(each.name, each.source, h.gpu.layout(kinds_of(each)), False)])
            assert not isinstance(made, GpuError), made
