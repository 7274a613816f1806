"""Kernels as machine code: what NumPy computes, over drawn kernels, and how they come to run."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest
import torch
import webgpu_torch_core as core
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu.device import CpuDevice
from webgpu_torch_core.ir.dtypes import bool_, float32, float64, int32, int64
from webgpu_torch_core.ir.expression import accumulator, apply, binary, cast, coordinate, load, load_at, reduced, select
from webgpu_torch_core.ir.kernels import Contraction, Pointwise, Reduction, RowProgram, Store
from webgpu_torch_core.ir.layouts import contiguous_strides, number_of_elements
from webgpu_torch_core.ir.monoids import monoid
from webgpu_torch_testing import assert_close, run_kernel
from webgpu_torch_testing.building import STORAGE, elementwise, operands, outputs, read, read_at, write

pytest.importorskip("llvmlite")

from webgpu_torch_backend_cpu.jit import adaptive, contractions, forms  # noqa: E402
from webgpu_torch_backend_cpu.jit.steps import Unsupported  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    """Machine code of these tests, which no other process finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEBGPU_TORCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def both(kernel, inputs, parameters=()):
    """Return what NumPy and what machine code gives; raise Unsupported where there is none."""
    adaptive.native(kernel)
    with pytest.MonkeyPatch.context() as patch:
        results = []
        for mode in ("0", "wait"):
            patch.setenv("WEBGPU_TORCH_CPU_JIT", mode)
            results.append(run_kernel(CpuDevice(), kernel, inputs, parameters))
    return results


def agree(kernel, inputs, parameters=()):
    expected, actual = both(kernel, inputs, parameters)
    for one, other, output in zip(actual, expected, kernel.outputs, strict=True):
        assert_close(one, other, output.dtype)


UNARY = ("negate", "absolute", "floor", "sqrt", "sign", "round")
#: what the two may round differently: the last step of a chain, as a later one could make any difference of it
ROUNDED = ("exp", "log", "tanh", "erf", "sin", "log1p", "expm1")
BINARY = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "minimum",
    "maximum",
    "remainder",
    "fmod",
    "floor_divide",
    "copysign",
)
WHOLE = ("add", "subtract", "multiply", "minimum", "maximum", "bitwise_xor", "floor_divide", "remainder")
SPECIAL = (0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 1e-42, 3e38, 88.9, -104.5, 0.6)


def values(kind, count, seed):
    """Return numbers of a type, the strange ones among them."""
    generator = numpy.random.default_rng(seed)
    if kind.category == 2:
        drawn = generator.normal(size=count) * 3
        places = generator.random(count) < 0.3
        drawn[places] = generator.choice(SPECIAL, places.sum())
        return drawn.tolist()
    low, high = (0, 2) if kind is bool_ else (-100 if kind.is_signed else 0, 100)
    return generator.integers(low, high, count).tolist()


@st.composite
def chains(draw):
    """Draw an element-wise kernel over operands of drawn types, strides and offsets, and what it reads."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=0, max_size=3)))
    kinds = [draw(st.sampled_from(STORAGE)) for _ in range(draw(st.integers(1, 3)))]
    computed = draw(st.sampled_from((float32, float64, int32, int64)))
    loads, parts = [], []
    for number, kind in enumerate(kinds):
        strides = contiguous_strides(shape)
        strides = tuple(
            0 if draw(st.integers(0, 4)) == 0 else each * draw(st.sampled_from((1, 1, 2, 4, 8))) for each in strides
        )
        offset = draw(st.integers(0, 3))
        count = offset + 1 + sum(stride * (size - 1) for stride, size in zip(strides, shape, strict=True))
        loads.append(cast(read(number, shape, kind, strides, offset), computed))
        parts.append((kind, count))
    for _ in range(draw(st.integers(1, 5))):
        one, other = draw(st.sampled_from(loads)), draw(st.sampled_from(loads))
        if computed.category == 1:
            # The quotient by 0 may be any number.
            step = draw(st.sampled_from(WHOLE))
            other = select(binary("equal", other, 0), 7, other) if step in ("floor_divide", "remainder") else other
            loads.append(apply(step, one, cast(other, computed)))
        elif draw(st.booleans()):
            loads.append(apply(draw(st.sampled_from(UNARY)), one))
        elif draw(st.booleans()):
            loads.append(apply(draw(st.sampled_from(BINARY)), one, other))
        else:
            loads.append(select(one < other, one, 2.5))
    stored = [each for each in STORAGE if computed is float32 or each.category == 0 or each is computed]
    if computed.category == 2 and draw(st.booleans()):
        loads.append(apply(draw(st.sampled_from(ROUNDED)), loads[-1]))
        # Other types would show more places than were computed.
        stored = [each for each in stored if each.category == 2 and each.itemsize <= computed.itemsize]
    result = draw(st.sampled_from(stored))
    kernel = Pointwise(
        operands(*parts), outputs((result, number_of_elements(shape))), (), "drawn", shape,
        (write(0, shape, loads[-1], result),),
    )  # fmt: skip
    return kernel, [values(kind, count, draw(st.integers(0, 99))) for kind, count in parts]


@settings(max_examples=15, deadline=None)
@given(chains())
def test_drawn_chains(case):
    kernel, inputs = case
    with numpy.errstate(all="ignore"):
        agree(kernel, inputs)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(chains())
def test_many_drawn_chains(case):
    kernel, inputs = case
    with numpy.errstate(all="ignore"):
        agree(kernel, inputs)


@st.composite
def rows(draw):
    """Draw a row program: reductions, the second of which may use the first, and stores per row or element."""
    outer = tuple(draw(st.lists(st.integers(1, 12), min_size=0, max_size=2)))
    inner = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=2)))
    domain, kind = outer + inner, draw(st.sampled_from((float32, float64, int32, bool_)))
    order = draw(st.permutations(range(len(domain))))
    permuted = contiguous_strides(tuple(domain[axis] for axis in order))
    strides = tuple(permuted[order.index(axis)] for axis in range(len(domain)))
    names = ("any", "all") if kind is bool_ else ("sum", "maximum", "minimum", "product")
    value = load(0, 0, strides, kind)
    reductions = [Reduction(monoid(draw(st.sampled_from(names)), kind), value)]
    if kind.category == 2 and draw(st.booleans()):
        reductions.append(Reduction(monoid("sum", kind), apply("exp", value - reduced(0, kind))))
    count, last = number_of_elements(outer), reduced(len(reductions) - 1, kind)
    if draw(st.booleans()):
        result = (outputs((kind, count)), (write(0, outer, last, kind),), ())
    else:
        each = select(last, value, last) if kind is bool_ else value - last
        result = (outputs((kind, number_of_elements(domain))), (), (write(0, domain, each, kind),))
    out, row_stores, stores = result
    kernel = RowProgram(
        operands((kind, number_of_elements(domain))),
        out,
        (),
        "drawn",
        outer,
        inner,
        tuple(reductions),
        row_stores,
        stores,
    )
    return kernel, [values(kind, number_of_elements(domain), draw(st.integers(0, 99)))]


@settings(max_examples=8, deadline=None)
@given(rows())
def test_drawn_rows(case):
    kernel, inputs = case
    with numpy.errstate(all="ignore"):
        agree(kernel, inputs)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(rows())
def test_many_drawn_rows(case):
    kernel, inputs = case
    with numpy.errstate(all="ignore"):
        agree(kernel, inputs)


@settings(max_examples=10, deadline=None)
@given(
    st.tuples(st.integers(1, 3), st.integers(2, 300)),
    st.sampled_from(("sum", "product")),
    st.integers(0, 99),
    st.sampled_from((3e38, 1e30, 1.0)),
)
def test_sums_and_products_pass_beyond_single_precision(shape, name, seed, size):
    """Both compute in double precision: what is infinite on the way in single precision need not be at the end."""
    if name == "product":
        # What is infinite in double precision, too, depends on the order of the factors.
        size = min(size, 10 ** (300 / shape[1]))
    kernel = RowProgram(
        operands((float32, number_of_elements(shape))), outputs((float32, shape[0])), (), "drawn", shape[:1], shape[1:],
        (Reduction(monoid(name, float32), load(0, 0, contiguous_strides(shape), float32)),),
        (write(0, shape[:1], reduced(0, float32), float32),), (),
    )  # fmt: skip
    data = numpy.random.default_rng(seed).choice((size, -size, 1 / size), number_of_elements(shape)).tolist()
    with numpy.errstate(all="ignore"):
        agree(kernel, [data])


@st.composite
def products(draw):
    """Draw a contraction of drawn sizes and orders of memory, with or without something done to its results."""
    sizes = [tuple(draw(st.lists(st.integers(1, 9), min_size=least, max_size=2))) for least in (0, 0, 1, 1)]
    domain, kind = sum(sizes, ()), draw(st.sampled_from((float32, float32, float64, int32)))
    starts = [sum(map(len, sizes[:number])) for number in range(5)]

    def side(operand, hidden):
        axes = draw(
            st.permutations([axis for axis in range(len(domain)) if not starts[hidden] <= axis < starts[hidden + 1]])
        )
        lies = dict(zip(axes, contiguous_strides(tuple(domain[axis] for axis in axes)), strict=True))
        count = number_of_elements(tuple(domain[axis] for axis in axes))
        return load(operand, 0, tuple(lies.get(axis, 0) for axis in range(len(domain))), kind), (kind, count)

    (left, one), (right, other) = side(0, 2), side(1, 1)
    shape, result = domain[: starts[3]], accumulator(kind)
    if draw(st.booleans()):
        result = apply("maximum", result * 2, 1) if kind is int32 else apply("tanh", result + 0.5)
    kernel = Contraction(
        operands(one, other), outputs((kind, number_of_elements(shape))), (), "drawn", *sizes, left, right, kind,
        (write(0, shape, result, kind),),
    )  # fmt: skip
    seed = draw(st.integers(0, 99))
    data = [numpy.random.default_rng(seed).integers(-9, 9, count).tolist() for _, count in (one, other)]
    return kernel, data


@settings(max_examples=10, deadline=None)
@given(products(), st.sampled_from((0, 1 << 15)))
def test_drawn_products(case, few):
    with pytest.MonkeyPatch.context() as patch:
        # With none few enough all go to BLAS, and what is done to their results is compiled.
        patch.setattr(contractions, "FEW", few)
        try:
            agree(*case)
        except Unsupported as error:
            assert case[0].elements() > few and "BLAS" in str(error)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(products())
def test_many_drawn_products(case):
    assume(case[0].elements() <= contractions.FEW)
    agree(*case)


@pytest.mark.slow
def test_windows_of_every_shape():
    environment = {**os.environ, "WEBGPU_TORCH_CPU_JIT": "wait"}
    file = Path(__file__).with_name("test_windows.py")
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", file], env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("step", ["exp", "log", "tanh", "erf", "log1p", "expm1"])
def test_functions_over_all_of_float32(step):
    """Within 4 units in the last place of double precision's, but at what has no digits left."""
    patterns = numpy.arange(0, 1 << 32, 65521, dtype=numpy.uint64).astype(numpy.uint32)
    x = numpy.concatenate((patterns.view(numpy.float32), numpy.linspace(-105, 90, 9973, dtype=numpy.float32)))
    kernel = elementwise((len(x),), (float32,), lambda a: apply(step, a), float32)
    result = numpy.empty(len(x), numpy.float32)
    native = adaptive.native(kernel)
    native([x.view(numpy.uint8)], [result.view(numpy.uint8)], [])
    exact = {"erf": numpy.vectorize(math.erf)}.get(step) or getattr(numpy, step)
    with numpy.errstate(all="ignore"):
        expected = exact(x.astype(numpy.float64)).astype(numpy.float32)
        tolerance = 8 if step == "erf" else 4
        unit = numpy.spacing(numpy.abs(expected).clip(1e-37, 3e38))
        wrong = numpy.abs(result.astype(numpy.float64) - expected) > tolerance * unit
    finite = numpy.isfinite(expected)
    assert not (wrong & finite).any(), (x[wrong & finite][:5], result[wrong & finite][:5], expected[wrong & finite][:5])
    assert numpy.array_equal(result[~finite], expected[~finite], equal_nan=True)


def test_sizes_are_no_part_of_the_text():
    def softmax(rows, columns, offset):
        value = load(0, offset, (columns, 1), float32)
        weight = apply("exp", value - reduced(0, float32))
        return RowProgram(
            operands((float32, rows * columns + offset)), outputs((float32, rows * columns)), (), "softmax", (rows,), (columns,),
            (Reduction(monoid("maximum", float32), value), Reduction(monoid("sum", float32), weight)), (),
            (Store(0, 0, (columns, 1), weight / reduced(1, float32)),),
        )  # fmt: skip

    (one,), (other,) = forms.pieces(softmax(9, 40, 8)), forms.pieces(softmax(30, 7, 5))
    assert one.text == other.text and one.numbers != other.numbers
    padded = [
        Pointwise(
            operands((float32, size)), outputs((float32, size + 8)), (), "pad", (size + 8,),
            (Store(0, 0, (1,), select(coordinate(0) < size, load_at(0, apply("minimum", coordinate(0), size - 1), float32), 0.0)),),
        )
        for size in (5000, 6000)
    ]  # fmt: skip
    texts = [[piece.text for piece in forms.pieces(each)] for each in padded]
    assert texts[0] == texts[1] and len(texts[0]) == 2


def test_products_are_rounded_before_they_are_added():
    kernel = elementwise((64,), (float32, float32), lambda a, b: a * b - b * a, float32)
    data = numpy.random.default_rng(0).normal(size=(2, 64)).tolist()
    assert not any(both(kernel, data)[1][0])


def test_computed_places_stay_inside():
    kernel = Pointwise(
        operands((float32, 4), (int64, 6)), outputs((float32, 6)), (), "gather", (6,),
        (write(0, (6,), read_at(0, read(1, (6,), int64), float32), float32),),
    )  # fmt: skip
    native = adaptive.native(kernel)
    data, places = numpy.arange(4, dtype=numpy.float32), numpy.array([0, 3, 1, -1, 1 << 40, -(1 << 62)])
    result = numpy.empty(6, numpy.float32)
    native([data.view(numpy.uint8), places.view(numpy.uint8)], [result.view(numpy.uint8)], [])
    assert result[:3].tolist() == [0, 3, 1] and set(result[3:]) <= set(data)


def test_every_number_of_threads_gives_the_same_bits(monkeypatch):
    data = numpy.random.default_rng(0).normal(size=300 * 4000).astype(numpy.float32)
    kernel = RowProgram(
        operands((float32, data.size)), outputs((float32, 300)), (), "sums", (300,), (4000,),
        (Reduction(monoid("sum", float32), apply("exp", load(0, 0, (4000, 1), float32))),), (write(0, (300,), reduced(0, float32), float32),), (),
    )  # fmt: skip
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(adaptive, "get_num_threads", lambda threads=threads: threads)
        result = numpy.empty(300, numpy.float32)
        adaptive.native(kernel)([data.view(numpy.uint8)], [result.view(numpy.uint8)], [])
        results.append(result)
    assert all(numpy.array_equal(results[0], each) for each in results[1:])
    assert len(adaptive._helpers) == 4


@contextlib.contextmanager
def debugging(logger):
    """Note what a logger is told meanwhile, in a list that is handed over."""
    handler, told, level = logging.NullHandler(), [], logger.level
    handler.handle = lambda record: told.append(record.getMessage())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield told
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def test_what_has_no_machine_code_stays_with_numpy_and_is_told():
    kernel = elementwise((4,), (float32,), lambda a: apply("digamma", a), float32)
    with pytest.raises(Unsupported, match="digamma of float32"):
        adaptive.native(kernel)
    before = adaptive.counts.unsupported
    with debugging(adaptive.logger) as told, pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEBGPU_TORCH_CPU_JIT", "wait")
        (result,) = run_kernel(CpuDevice(), kernel, [[1.0, 2.0, 3.0, 4.0]])
        assert "left to NumPy" in CpuDevice().description()["jit"]
    assert_close(result, [-0.5772157, 0.42278433, 0.92278437, 1.2561177], float32)
    assert adaptive.counts.unsupported == before + 1 and any("stays with NumPy: digamma" in each for each in told)


def test_numpy_runs_until_the_code_is_ready(monkeypatch):
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "1")
    monkeypatch.setattr(adaptive, "LOOKED_FOR_AFTER", 0.0)
    monkeypatch.setattr(adaptive, "COMPILED_AFTER", 0.0)
    kernel = elementwise((100,), (float32,), lambda a: a * 1.375 + 0.625, float32)
    device, inputs = CpuDevice(), [[float(each) for each in range(100)]]
    first = run_kernel(device, kernel, inputs)
    (found,) = device._compiled.values()
    end = time.monotonic() + 30
    while found.native is None and time.monotonic() < end:
        time.sleep(0.01)
    assert found.native is not None and found.numpy is not None
    assert run_kernel(device, kernel, inputs) == first


@given(
    numpys=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=5),
    natives=st.lists(st.floats(1e-6, 1.0), min_size=adaptive.TRIALS, max_size=adaptive.TRIALS + 3),
)
def test_the_quicker_of_both_keeps_a_kernel(numpys, natives):
    clock, calls = [0.0], []

    def lasting(name, durations):
        waiting = iter(durations)

        def run(operands, outputs, parameters):
            clock[0] += next(waiting, 1.0)
            calls.append(name)

        return run

    found = adaptive.Adaptive(elementwise((4,), (float32,), lambda a: a + 2.5, float32), waits=False)
    found.numpy, found.limit = lasting("numpy", numpys), math.inf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptive.time, "perf_counter", lambda: clock[0])
        for _ in numpys:
            found([], [], [])
        # As long as nothing is decided, nothing but the kernel itself may be called.
        assert found.settled is None
        found.limit, found.native = None, lasting("native", natives)
        assert found.settled is None
        for _ in natives:
            found([], [], [])
    # The clock's own rounding may decide between equals.
    slow, quick = (
        min(natives[: adaptive.TRIALS]) > min(numpys) + 1e-9,
        min(natives[: adaptive.TRIALS]) < min(numpys) - 1e-9,
    )
    tried = ["numpy"] * len(numpys) + ["native"] * adaptive.TRIALS
    further = len(natives) - adaptive.TRIALS
    assert calls == tried + ["native" if found.native else "numpy"] * further
    assert not (slow and found.native) and not (quick and found.native is None)
    assert found.settled is (found.native or found.numpy)


def test_rare_and_small_kernels_are_not_compiled(monkeypatch):
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "1")
    kernel = elementwise((100,), (float32,), lambda a: a * 1.125 + 0.875, float32)
    device = CpuDevice()
    run_kernel(device, kernel, [[0.0] * 100])
    (found,) = device._compiled.values()
    assert found.native is None and found.limit == adaptive.LOOKED_FOR_AFTER


def test_machine_code_is_found_by_the_next_process(tmp_path):
    program = """
import numpy, webgpu_torch_core as torch
from webgpu_torch_backend_cpu.jit import machine
compiled = []
original = machine.Machine._compile
machine.Machine._compile = lambda self, text: compiled.append(text) or original(self, text)
x = torch.ones(50, device="cpu")
print((x * 3 + 1).sum().item(), len(compiled))
"""
    environment = {**os.environ, "WEBGPU_TORCH_CACHE": str(tmp_path), "WEBGPU_TORCH_CPU_JIT": "wait"}

    def run():
        found = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        return found.stdout.split()

    first, second = run(), run()
    assert first[0] == second[0] == "200.0" and int(first[1]) > 0 and second[1] == "0"


def test_without_a_compiler_numpy_runs_everything(monkeypatch):
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "wait")
    monkeypatch.setattr(adaptive, "is_installed", lambda: False)
    kernel = elementwise((4,), (float32,), lambda a: a + 1.0, float32)
    device = CpuDevice()
    assert run_kernel(device, kernel, [[1.0, 2.0, 3.0, 4.0]]) == [[2.0, 3.0, 4.0, 5.0]]
    assert not any(isinstance(each, adaptive.Adaptive) for each in device._compiled.values())
    assert "pip install" in device.description()["jit"]


def test_a_child_process_compiles_nothing(monkeypatch):
    monkeypatch.setattr(adaptive._Process, "forked", False)
    adaptive._forked()
    assert adaptive._Process.forked and not adaptive._helpers
    kernel = elementwise((4,), (float32,), lambda a: a + 1.5, float32)
    with pytest.raises(Unsupported, match="child"):
        adaptive.native(kernel)


@pytest.mark.parametrize(("height", "length", "stride", "dilation"), [(7, 29, 1, 1), (11, 6, 2, 1), (13, 8, 1, 2)])
def test_planes_of_single_channels(monkeypatch, height, length, stride, dilation):
    """Results and gradients are PyTorch's, and what is not finite stays inside of its windows."""
    written = []
    planes = contractions.planes
    monkeypatch.setattr(contractions, "planes", lambda kernel: written.append(planes(kernel)) or written[-1])
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "wait")
    torch.manual_seed(0)
    image, weight = torch.randn(2, 3, height, length), torch.randn(3, 1, 3, 5)
    image[1, 2, 4, 3] = float("inf") if stride == 1 else 0.5
    results = []
    for library, functional in ((torch, torch.nn.functional), (core, core.functional)):
        tensors = [library.tensor(each.tolist()).requires_grad_() for each in (image, weight)]
        result = functional.conv2d(*tensors, stride=stride, padding=2, dilation=dilation, groups=3)
        (result * result).sum().backward()
        results.append([each.detach().tolist() for each in (result, *(each.grad for each in tensors))])
    assert any(written)
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), rtol=1e-4, atol=1e-3, equal_nan=True)
