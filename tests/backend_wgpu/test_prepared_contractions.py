"""Products of few rows that compute their left side themselves: a norm before them, a gate, as one kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
import torch
import webgpu_torch as ours
from contraction_cases import draw
from golden.profiles import PROFILES
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu import device as device_module
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.codegen import VARIANTS, contraction_prepared, generate
from webgpu_torch_backend_wgpu.codegen.packed_numbers import plain_numbers
from webgpu_torch_backend_wgpu.codegen.preparing import preparing_pays
from webgpu_torch_backend_wgpu.gpu.checking import CheckingRuntime
from webgpu_torch_backend_wgpu.program import Capabilities
from webgpu_torch_core.ir.dtypes import bfloat16, float32, uint8
from webgpu_torch_core.ir.encodings import ENCODINGS
from webgpu_torch_core.ir.expression import accumulator, cast, coordinate, load, loads_of, operand_of, reduced
from webgpu_torch_core.ir.kernels import Operand, Output, PreparedContraction, Reduction, Store
from webgpu_torch_core.ir.monoids import monoid
from webgpu_torch_core.operations.contraction.encoded_weights import decode_weight, encode_weight, encoded_linear
from webgpu_torch_core.record.devices import engine_for
from webgpu_torch_testing import interpret, run_kernel

#: what gives the rows that are multiplied
BEFORE: dict[str, Callable[..., torch.Tensor]] = {
    "rms_norm": lambda t, x, y: t.nn.functional.rms_norm(x, x.shape[-1:], y[0], eps=1e-5),
    "layer_norm": lambda t, x, y: t.nn.functional.layer_norm(x, x.shape[-1:], y[0], eps=1e-5),
    "softmax": lambda t, x, y: t.softmax(x, -1),
    "gate": lambda t, x, y: t.nn.functional.silu(x) * y,
    "greatest": lambda t, x, y: x * (x.abs().amax(-1, keepdim=True) + 1).reciprocal() - y,
    "joined": lambda t, x, y: t.cat((t.sin(x[:, 2:]), y[:, :2]), -1),
}
#: an adapter that computes nothing
ADAPTER = WgpuBackend(CheckingRuntime([PROFILES["default"]])).open(0)
KINDS = {"float32": (2e-5, 2e-5), "float16": (4e-3, 4e-3), "bfloat16": (3e-2, 3e-2)}


@pytest.fixture
def preparing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PreparedContraction]]:
    """Have every product of few rows compute its left side that can; tells which did."""
    used: list[PreparedContraction] = []

    def pays(kernel: PreparedContraction, capabilities: Capabilities) -> bool:
        facts = capabilities.facts.replace(dispatch=1.0)
        # A device is asked about a kernel with the buffers that it would bind.
        for load in loads_of(*kernel.expressions()):
            assert kernel.operands[operand_of(load)].dtype == load.dtype
        assert len(kernel.outputs) == len(kernel.all_stores())
        return preparing_pays(kernel, capabilities.replace(software=False, facts=facts))

    variant = VARIANTS[PreparedContraction][-1]
    # A few workgroups take all strips in turns.
    monkeypatch.setattr(contraction_prepared, "AT_ONCE", 1)

    def emit(kernel: PreparedContraction, capabilities: Capabilities, plan: object) -> object:
        used.append(kernel)
        return variant.emit(kernel, capabilities.replace(software=False), plan)

    monkeypatch.setitem(VARIANTS, PreparedContraction, [variant._replace(emit=emit)])  # pyright: ignore
    monkeypatch.setattr(device_module, "preparing_pays", pays)
    return used


def moved(given: torch.Tensor, kind: str) -> ours.Tensor:
    return ours.from_numpy(given.numpy()).to("webgpu", getattr(ours, kind))


def any_prepared(data: st.DataObject) -> None:
    kind, before = data.draw(st.sampled_from(sorted(KINDS))), data.draw(st.sampled_from(sorted(BEFORE)))
    m, n = data.draw(st.integers(1, 8)), data.draw(st.integers(8, 70))
    k = data.draw(st.integers(64, 200)) * data.draw(st.sampled_from((4, 4, 5)))
    chance = torch.Generator().manual_seed(data.draw(st.integers(0, 1 << 20)))
    x, y, w, r = (torch.randn(*size, generator=chance) for size in ((m, k), (m, k), (n, k), (m, n)))
    transposed = data.draw(st.booleans())
    theirs, mine = (
        [each.to(getattr(torch, kind)) for each in (x, y, w, r)],
        [moved(each, kind) for each in (x, y, w, r)],
    )
    if transposed:
        mine[2] = mine[2].t().contiguous().t()
    with torch.no_grad(), ours.no_grad():
        expected = BEFORE[before](torch, *theirs[:2]) @ theirs[2].t() + theirs[3]
        found = BEFORE[before](ours, *mine[:2]) @ mine[2].t() + mine[3]
        found = torch.from_numpy(found.float().cpu().numpy())
    relative, absolute = KINDS[kind]
    torch.testing.assert_close(found, expected.float(), rtol=relative, atol=absolute * k**0.5)


@pytest.mark.usefixtures("webgpu", "preparing")
@pytest.mark.parametrize("count", [pytest.param(2, id="some"), pytest.param(60, id="many", marks=pytest.mark.slow)])
def test_any_prepared(count: int) -> None:
    draw(count, any_prepared)


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("before", sorted(BEFORE))
def test_one_kernel_by_its_definition(before: str, preparing: list[PreparedContraction]) -> None:
    """What comes before a product is a part of it, and means what the interpreter says."""
    k, n = 268, 11 + sorted(BEFORE).index(before)
    chance = torch.Generator().manual_seed(n)
    x, y, w = (torch.randn(*size, generator=chance) for size in ((2, k), (2, k), (n, k)))
    mine = [moved(each, "float32") for each in (x, y, w)]
    with ours.no_grad():
        found = torch.tensor((BEFORE[before](ours, *mine[:2]) @ mine[2].t()).tolist())
    torch.testing.assert_close(found, BEFORE[before](torch, x, y) @ w.t(), rtol=2e-5, atol=2e-4)
    kernel = preparing[-1]
    assert kernel.n == (n,)
    inputs = [torch.randn(each.numel, generator=chance).tolist() for each in kernel.operands]
    parameters = [0.5 + number for number in range(len(kernel.parameters))]
    device = engine_for(ours.device("webgpu")).device
    (run,), (defined,) = run_kernel(device, kernel, inputs, parameters), interpret(kernel, inputs, parameters)
    torch.testing.assert_close(torch.tensor(run), torch.tensor(defined), rtol=2e-5, atol=2e-4)


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_encoded_weights(encoding: str, preparing: list[PreparedContraction]) -> None:
    """Weights of a few bits are decoded by a product that has normalised its input, too."""
    chance = torch.Generator().manual_seed(3)
    x, w = torch.randn(1, 320, generator=chance), torch.randn(24, 320, generator=chance)
    with ours.no_grad():
        packed = encode_weight(moved(w, "float32"), encoding, 16, offset=encoding == "uint4")
        weight = torch.from_numpy(decode_weight(packed[0], packed[1], encoding, offsets=packed[2]).cpu().numpy())
        given = moved(x, "float32")
        # What somebody holds is a kernel of its own.
        rows = ours.nn.functional.rms_norm(given, (320,), eps=1e-6)
        encoded_linear(rows, packed[0], packed[1], encoding, packed[2]).tolist()
        assert not preparing
        del rows
        found = encoded_linear(
            ours.nn.functional.rms_norm(given, (320,), eps=1e-6), packed[0], packed[1], encoding, packed[2]
        )
        found = torch.from_numpy(found.cpu().numpy())
    assert preparing[-1].reductions
    expected = torch.nn.functional.rms_norm(x, (320,), eps=1e-6) @ weight.t()
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-4)


def any_encoded(data: st.DataObject) -> None:
    encoding, group = data.draw(st.sampled_from(sorted(ENCODINGS))), data.draw(st.sampled_from([4, 8, 16, 32, 48]))
    m, n = data.draw(st.integers(1, 8)), data.draw(st.integers(8, 40))
    groups = data.draw(st.integers(-(-256 // group), 40 + 256 // group))
    offset, k = data.draw(st.booleans()), group * groups
    chance = torch.Generator().manual_seed(data.draw(st.integers(0, 1 << 20)))
    x, w = torch.randn(m, k, generator=chance), torch.randn(n, k, generator=chance)
    packed, scales, offsets = encode_weight(moved(w, "float32"), encoding, group, offset=offset)
    weight = torch.from_numpy(decode_weight(packed, scales, encoding, offsets=offsets).cpu().numpy())
    with ours.no_grad():
        found = encoded_linear(moved(x, "float32").sin(), packed, scales, encoding, offsets)
        found = torch.from_numpy(found.cpu().numpy())
    torch.testing.assert_close(found, x.sin() @ weight.t(), rtol=2e-5, atol=2e-5 * k)


@pytest.mark.usefixtures("webgpu", "preparing")
@pytest.mark.parametrize("count", [pytest.param(3, id="some"), pytest.param(80, id="many", marks=pytest.mark.slow)])
def test_any_encoded(count: int) -> None:
    """A thread reads many numbers of a few bits at once, and what they are multiplied with from workgroup memory."""
    draw(count, any_encoded)


@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_numbers_that_are_their_bits(encoding: str) -> None:
    """Of an encoding whose numbers are their bits, these are cut out of words; of others they are computed."""
    found = ENCODINGS[encoding]
    word = load(0, 0, (1, 0), uint8)
    value = found.unpack(word, coordinate(1) if found.lanes > 1 else 0) * 2.0
    plain = plain_numbers(value, word, 1 if found.lanes > 1 else None, found.lanes)
    turned = {"int8": 128, "int4": 8, "uint4": 0, "int2": 2}
    assert (None if plain is None else plain[1]) == turned.get(encoding)


def normalized(m: int, k: int, n: int, kind: str, layout: str = "r") -> PreparedContraction:
    """Return the product of rows over their sums with a matrix whose rows ("r") or columns ("c") are contiguous."""
    own = {"float32": float32, "bfloat16": bfloat16}[kind]
    right = (1, n) if layout == "c" else (k, 1)
    load_left, load_right = load(0, 0, (k, 0, 1), own), load(1, 0, (0, *right), own)
    return PreparedContraction(
        (Operand(own, m * k), Operand(own, n * k)), (Output(float32, m * n, None),), (), "prepared", (), (m,), (n,), (k,),
        cast(load_left, float32) / reduced(0, float32), cast(load_right, float32), float32,
        (Store(0, 0, (n, 1), accumulator(float32)),), (Reduction(monoid("sum", float32), cast(load_left, float32)),),
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@drawn(
    st.integers(1, 8), st.integers(1, 4000), st.integers(8, 4000), st.sampled_from(["float32", "bfloat16"]),
    st.sampled_from("rc"), st.sampled_from([1 << 14, 1 << 15, 48 << 10]),
)  # fmt: skip
def test_it_fits_workgroup_memory(m: int, k: int, n: int, kind: str, layout: str, room: int) -> None:
    """What pays is no larger than the workgroup memory that there is."""
    kernel = normalized(m, k, n, kind, layout)
    given = ADAPTER.capabilities.replace(workgroup_bytes=room, facts=ADAPTER.capabilities.facts.replace(dispatch=1.0))
    if not preparing_pays(kernel, given):
        return
    (program,) = generate(kernel, given).passes[:1]
    taken = re.findall(r"var<workgroup> \w+: array<(vec4<f32>|f32), (\d+)>", program.source)
    assert sum((16 if each.startswith("vec4") else 4) * int(count) for each, count in taken) <= room


@pytest.mark.usefixtures("webgpu")
def test_a_product_that_is_written_over_what_a_kernel_makes() -> None:
    """A cache's zeros are there before the product is written among them: no reader of the product's left side."""
    x, w = torch.randn(2, 8), torch.randn(8, 8)

    # Where nothing is recorded, what fails as a whole is tried again in parts.
    @ours.compile
    def filled(x: ours.Tensor, w: ours.Tensor) -> ours.Tensor:
        cache = ours.zeros(1, 2, 64, 4, device="webgpu")
        cache.index_copy_(2, ours.arange(2, device="webgpu"), (x @ w).view(1, 2, 2, 4).transpose(1, 2))
        return cache

    wanted = torch.zeros(1, 2, 64, 4)
    wanted[:, :, :2] = (x @ w).view(1, 2, 2, 4).transpose(1, 2)
    found = filled(moved(x, "float32"), moved(w, "float32"))
    torch.testing.assert_close(torch.from_numpy(found.cpu().numpy()), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_what_is_loaded_once_is_on_its_way_while_rows_are_computed(kind: str) -> None:
    kernel = normalized(1, 1024, 64, kind)
    [found] = contraction_prepared.generate_prepared(kernel, ADAPTER.capabilities).passes
    text = found.source[found.source.index("fn main") :]
    weights, barrier = text.index("operand1["), text.index("workgroupBarrier")
    assert weights < barrier < text.rindex("workgroupBarrier")
    # One turn takes the whole depth.
    assert "operand1[" not in text[barrier:]
    # Workgroups of several strips load those in turns.
    [found] = contraction_prepared.generate_prepared(normalized(1, 1024, 1 << 13, kind), ADAPTER.capabilities).passes
    text = found.source[found.source.index("fn main") :]
    assert text.index("operand1[") > text.index("workgroupBarrier")
