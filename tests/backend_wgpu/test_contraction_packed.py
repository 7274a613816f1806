"""Products of few rows with integers of a few bits, which are multiplied as integers."""

from __future__ import annotations

import math

import pytest
import torch
import webgpu_torch as ours
from contraction_cases import draw
from golden.profiles import PROFILES
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu import device as device_module
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.codegen import VARIANTS
from webgpu_torch_backend_wgpu.codegen.contraction_packed import generate_packed
from webgpu_torch_backend_wgpu.codegen.packed_side import packed_side
from webgpu_torch_backend_wgpu.codegen.packed_strips import PackedStrip, cuts_of, packed_strips
from webgpu_torch_backend_wgpu.codegen.variants import Variant, choose
from webgpu_torch_backend_wgpu.gpu.checking import CheckingRuntime
from webgpu_torch_backend_wgpu.program import Capabilities
from webgpu_torch_core.ir.dtypes import bfloat16, float32, uint8
from webgpu_torch_core.ir.encodings import ENCODINGS
from webgpu_torch_core.ir.expression import Expression, accumulator, cast, coordinate, load
from webgpu_torch_core.ir.kernels import Contraction, Operand, Output, PreparedContraction, Store
from webgpu_torch_core.operations.contraction.encoded_weights import decode_weight, encode_weight, encoded_linear

#: the encodings whose numbers are integers
INTEGERS = {"int8": 8, "int4": 4, "uint4": 4, "int2": 2}
#: what is allowed for each element, of the sum of its products' magnitudes: rounding of the result beside that of the rows
ALLOWED = {"float32": 4e-7, "float16": 6e-5, "bfloat16": 6e-5}
ROUNDED = {"float32": 2.0**-23, "float16": 2.0**-11, "bfloat16": 2.0**-8}
USUAL = WgpuBackend(CheckingRuntime([PROFILES["default"]])).open(0)


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[Contraction]:
    """Have every product that can multiply packed integers do so, those with an odd number of columns by rows cut ahead; tells which did."""
    used: list[Contraction] = []

    def fits(kernel: Contraction, capabilities: Capabilities) -> list[PackedStrip]:
        return [each for each in packed_strips(kernel, capabilities) if each.ahead == kernel.n[-1] % 2]

    def noting(variant: Variant) -> Variant:
        def emit(kernel: Contraction, capabilities: Capabilities, plan: object) -> object:
            used.append(kernel)
            return variant.emit(kernel, capabilities, plan)

        return variant._replace(emit=emit, cost=lambda *_: -1.0, fits=fits)

    for form in (Contraction, PreparedContraction):
        found = [noting(each) if "packed" in each.name else each for each in VARIANTS[form]]
        monkeypatch.setitem(VARIANTS, form, found)  # pyright: ignore
    return used


def moved(given: torch.Tensor, kind: str = "float32") -> ours.Tensor:
    return ours.from_numpy(given.numpy()).to("webgpu", getattr(ours, kind))


def back(given: ours.Tensor) -> torch.Tensor:
    return torch.from_numpy(given.float().cpu().numpy()).double()


def encoded(
    weight: torch.Tensor, encoding: str, offset: bool = False, group: int = 16, zero_point: bool = False
) -> tuple[ours.Tensor, ...]:
    """Return a weight's parts, once they are computed: a product computes them itself while they are not."""
    parts = encode_weight(moved(weight), encoding, group, offset=offset, zero_point=zero_point)
    for each in parts:
        if each is not None:
            each.cpu()
    return parts  # pyright: ignore


def any_packed(data: st.DataObject) -> None:
    """Compare a drawn product with the sum of exact products, element by element."""
    encoding, kind = data.draw(st.sampled_from(sorted(INTEGERS))), data.draw(st.sampled_from(sorted(ALLOWED)))
    group = data.draw(st.sampled_from([16, 32, 48, 64, 128]))
    run = 128 // INTEGERS[encoding]
    # As many numbers as groups and runs divide.
    least = math.lcm(group, run)
    k = least * data.draw(st.integers(max(1, -(-32 // least)) + (least == group), 1 + 640 // least))
    m, n = data.draw(st.integers(1, 8)), data.draw(st.integers(8, 70))
    offset = data.draw(st.booleans())
    zero_point = encoding == "uint4" and data.draw(st.booleans())
    chance = torch.Generator().manual_seed(data.draw(st.integers(0, 1 << 20)))
    scale = 10.0 ** data.draw(st.integers(-8, 4 if kind == "float16" else 12))
    x = torch.randn(m, k, generator=chance) * (scale if kind != "float16" else max(scale, 1e-3))
    x = x.where(torch.rand(m, k, generator=chance) > data.draw(st.sampled_from([0.0, 0.5, 0.97])), torch.zeros(()))
    x = x.to(getattr(torch, kind)).float()
    w = torch.randn(n, k, generator=chance)
    parts = encoded(w, encoding, offset, group, zero_point)
    weight = back(decode_weight(parts[0], parts[1], encoding, offsets=parts[2]))
    with ours.no_grad():
        found = back(encoded_linear(moved(x, kind), parts[0], parts[1], encoding, parts[2]))
    expected, magnitudes = x.double() @ weight.t(), x.double().abs() @ weight.t().abs()
    # What a piece's step leaves is a share of its largest element, and offsets count every element of it.
    largest = x.double().abs().reshape(m, -1, 16).amax(-1).repeat_interleave(16, -1) @ weight.t().abs()
    finite = expected.abs() < 6e4 if kind == "float16" else torch.ones_like(expected, dtype=torch.bool)
    error = (found - expected).abs()
    bound = ALLOWED[kind] * (magnitudes + largest) + ROUNDED[kind] * expected.abs() + 1e-37
    if kind == "float16":
        bound = bound + 2.0**-24
    assert (error <= bound)[finite].all(), (error / bound)[finite].max()


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("count", [pytest.param(6, id="some"), pytest.param(120, id="many", marks=pytest.mark.slow)])
def test_any_packed(count: int, packed: list[Contraction]) -> None:
    draw(count, any_packed)
    assert packed


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("rows", [30, 31])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_what_comes_before_is_computed_with_it(
    kind: str, rows: int, packed: list[Contraction], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A norm, and the product with what it gives, are one kernel, whose rows are cut into bytes."""
    monkeypatch.setattr(device_module, "preparing_pays", lambda *_: True)
    chance = torch.Generator().manual_seed(5)
    x, w = torch.randn(2, 384, generator=chance), torch.randn(rows, 384, generator=chance)
    with ours.no_grad():
        parts = encoded(w, "uint4", offset=True)
        weight = back(decode_weight(parts[0], parts[1], "uint4", offsets=parts[2]))
        given = moved(x, kind)
        # What somebody holds would be a kernel of its own.
        normalise = ours.nn.functional.rms_norm
        found = back(encoded_linear(normalise(given, (384,), eps=1e-6), parts[0], parts[1], "uint4", parts[2]))
    (kernel,) = [each for each in packed if each.n == (rows,)]
    assert isinstance(kernel, PreparedContraction)
    assert kernel.reductions
    normalised = torch.nn.functional.rms_norm(x.to(getattr(torch, kind)), (384,), eps=1e-6).double()
    close = {"float32": 1e-5, "float16": 5e-3}[kind]
    torch.testing.assert_close(found, normalised @ weight.t(), rtol=close, atol=close * 20)


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_what_is_not_finite_stays_so(kind: str, packed: list[Contraction]) -> None:
    """Infinity or no number in a row makes its results infinite or no numbers, and leaves those of other rows."""
    w = torch.arange(1, 8 * 64 + 1).reshape(8, 64) % 7 + 1.0
    parts = encoded(w, "int8")
    weight = back(decode_weight(parts[0], parts[1], "int8"))
    for value in (math.inf, -math.inf, math.nan):
        x = torch.ones(2, 64)
        x[0, 37] = value
        with ours.no_grad():
            found = back(encoded_linear(moved(x, kind), parts[0], parts[1], "int8"))
        assert not found[0].isfinite().any()
        torch.testing.assert_close(found[1], weight.sum(-1), rtol=2.0**-8, atol=0.0)
    assert packed


@pytest.mark.usefixtures("webgpu")
def test_rows_of_zeros_and_of_the_least_numbers(packed: list[Contraction]) -> None:
    """Zeros give zeros; numbers whose steps would be no normal ones count as zeros, where float32 has hardly any bits."""
    x = torch.zeros(3, 64)
    x[1], x[2] = 1e-25, 1e-38
    with ours.no_grad():
        parts = encoded(torch.ones(8, 64), "int8")
        found = back(encoded_linear(moved(x), parts[0], parts[1], "int8"))
    assert packed
    assert found[0].eq(0).all()
    one = back(decode_weight(parts[0], parts[1], "int8")).sum(-1)
    torch.testing.assert_close(found[1] * 1e25, one, rtol=1e-5, atol=0.0)
    assert found[2].abs().max() < 1e-36


def product(encoding: str, group: int, k: int, m: int = 1, n: int = 40) -> Contraction:
    """Return a product with a matrix whose bytes are neighbours along k."""
    known = ENCODINGS[encoding]
    words, groups = group // known.lanes, k // group
    depths = 2 + (known.lanes > 1)
    strides = (0, k // known.lanes, words, 1, 0)[: 2 + depths]
    number = known.unpack(load(1, 0, strides, uint8), coordinate(4) if known.lanes > 1 else 0)
    right = number * cast(load(2, 0, (0, groups, 1, 0, 0)[: 2 + depths], bfloat16), float32)
    left: Expression = load(0, 0, (k, 0, group, known.lanes, 1)[: 2 + depths], float32)
    operands = (Operand(float32, m * k), Operand(uint8, n * k // known.lanes), Operand(bfloat16, n * groups))
    return Contraction(
        operands, (Output(float32, m * n, None),), (), "packed", (), (m,), (n,), (groups, words, known.lanes)[:depths], left, right,
        float32, (Store(0, 0, (n, 1), accumulator(float32)),),
    )  # fmt: skip


@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_which_sides_are_packed(encoding: str) -> None:
    """Integers in groups of a multiple of sixteen are; other numbers and groups are not."""
    for group in (8, 16, 24, 32):
        found = packed_side(product(encoding, group, group * 16), "n")
        assert (found is not None) is (encoding in INTEGERS and group % 16 == 0)
        if found is not None:
            assert (found.bits, found.group) == (INTEGERS[encoding], group)
    # Runs do not divide the rows.
    assert packed_side(product("int2", 16, 16 * 7), "n") is None


def test_rows_that_find_no_place_are_cut_ahead() -> None:
    """What an adapter's workgroup memory cannot hold lies in its own; what its language has no word for is left to others."""
    usual: Capabilities = USUAL.capabilities  # pyright: ignore

    def ways(*given: int, **sizes: int) -> set[bool]:
        return {each.ahead for each in packed_strips(product("uint4", 16, *given, **sizes), usual)}

    assert ways(1024) == {False, True}
    assert ways(1 << 14) == ways(1024, m=8) == {True}
    assert not ways(1024, m=9)
    assert not packed_strips(product("uint4", 16, 1024), usual.replace(facts=usual.facts.replace(dots=0.0)))


def test_halves_are_cut_into_fewer_bytes() -> None:
    """What was rounded to sixteen bits loses less by two bytes than it lost before."""
    assert cuts_of(load(0, 0, (1,), float32)) == 3
    assert cuts_of(cast(load(0, 0, (1,), bfloat16), float32)) == 2
    assert cuts_of(cast(load(0, 0, (1,), uint8), float32)) == 3


def test_long_rows_are_cut_ahead() -> None:
    """On a large card every workgroup cuts short rows for itself, and a pass before cuts rows that take them long."""
    card = WgpuBackend(CheckingRuntime([PROFILES["discrete"]])).open(0).capabilities  # pyright: ignore
    # Its rates, as they are measured on one.
    facts = card.facts.replace(units=132, flops=6.4e13, bandwidth=2.3e12, dispatch=8e-6, dots=1.2e14)
    card = card.replace(facts=facts)
    for k, n, ahead in ((2560, 19456, False), (5120, 5120, False), (17408, 5120, True)):
        variant, plan = choose(product("uint4", 16, k, n=n), card)
        assert "packed" in variant.name
        assert plan.ahead is ahead


@pytest.mark.parametrize("added", range(5))
def test_pieces_are_bound_where_there_is_room(added: int) -> None:
    """With however many operands that an adapter binds, no pass of any way binds more buffers than it allows."""
    usual: Capabilities = USUAL.capabilities  # pyright: ignore
    kernel = product("uint4", 16, 1024)
    value: Expression = accumulator(float32)
    for number in range(added):
        value = value + load(3 + number, 0, (40, 1), float32)
    kernel = kernel.replace(
        operands=kernel.operands + (Operand(float32, 40),) * added, stores=(kernel.stores[0].replace(value=value),)
    )
    plans = packed_strips(kernel, usual)
    assert {each.ahead for each in plans} == ({False, True} if added < 3 else {False})
    for plan in plans:
        for each in generate_packed(kernel, usual, plan).passes:
            assert sum(one.kind not in ("parameters", "sizes") for one in each.bindings) <= usual.storage_buffers
