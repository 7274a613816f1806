"""Fused and eager execution agree; loops reuse their plans and their memory; a new operation is one definition."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from ops_oracle import ORACLE, OURS, sample, to_ours, to_torch
from webgpu_torch_core.dispatch.registry import OPERATIONS
from webgpu_torch_core.ir.scalar import exp
from webgpu_torch_core.operations.elementwise.call import elementwise
from webgpu_torch_core.record.devices import canonical_device, engine_for
from webgpu_torch_core.tensors.tensor import Tensor

POINTWISE = (
    lambda t, a, b: a + b,
    lambda t, a, b: a * b,
    lambda t, a, b: a - 2 * b,
    lambda t, a, b: a.tanh(),
    lambda t, a, b: (a * 0.1).exp(),
    lambda t, a, b: t.where(a > b, a, b),
    lambda t, a, b: a.relu(),
    lambda t, a, b: a.sigmoid() * b,
    lambda t, a, b: a / (b.abs() + 1),
    lambda t, a, b: t.maximum(a, b),
    lambda t, a, b: (a > 0).to(t.float32),
    lambda t, a, b: a.half().float(),
)
SHAPING = (
    lambda t, a, b: a.flip(0),
    lambda t, a, b: a.reshape(-1).reshape(a.shape),
    lambda t, a, b: a.t().contiguous().t(),
    lambda t, a, b: t.cat([a[1:], b[:1]]),
    lambda t, a, b: t.roll(a, 1, 0),
    lambda t, a, b: a.mean(0, keepdim=True).expand(a.shape),
    lambda t, a, b: a - a.amax(1, keepdim=True),
    lambda t, a, b: a.softmax(1),
    lambda t, a, b: a * b.sum(),
    lambda t, a, b: a + b[0],
    lambda t, a, b: a + b[:, :1],
    lambda t, a, b: t.F.layer_norm(a, (a.shape[1],)),
    lambda t, a, b: a.cumsum(1) * 0.1,
    lambda t, a, b: (a @ b.t() @ a) * 0.05,
    lambda t, a, b: (
        (a.t() @ b)[: a.shape[0], :1] * 0.1 + a[: min(a.shape)].sum() * 0.01 + a if a.shape[0] <= a.shape[1] else a
    ),
    lambda t, a, b: a.sort(1).values,
    lambda t, a, b: t.stack([a, b]).mean(0),
    lambda t, a, b: a.repeat(2, 1)[1 : a.shape[0] + 1],
    lambda t, a, b: a.var(1, keepdim=True) + b,
    lambda t, a, b: a.gather(1, (b > 0).long()[:, :1]).expand(a.shape) + a,
    lambda t, a, b: a.tril() + b.triu(1),
    lambda t, a, b: a.argmax(1).to(t.float32)[:, None] * 0.1 + b,
)


def _in_place(a: Any, write: Any) -> Any:
    a = a * 1
    write(a)
    return a


WRITING = (
    lambda t, a, b: _in_place(a, lambda x: x.add_(b)),
    lambda t, a, b: _in_place(a, lambda x: x[0].mul_(b[1])),
    lambda t, a, b: _in_place(a, lambda x: x[:, 1:].copy_(x[:, :-1] * 0.5)),
    lambda t, a, b: _in_place(a, lambda x: x.t().add_(1)),
    lambda t, a, b: _in_place(a, lambda x: x.__setitem__((slice(None), 0), b.sum(1))),
    lambda t, a, b: _in_place(a, lambda x: x[::2].zero_()),
    lambda t, a, b: _in_place(a, lambda x: x.masked_fill_(b > 0, 0.5)),
    lambda t, a, b: _in_place(a, lambda x: (x[1:].add_(x[:-1].clone()), x[0].sub_(x[1]))),
    lambda t, a, b: _in_place(a, lambda x: x.__setitem__(x > 1, 0.25)),
)
ALL = POINTWISE + SHAPING + WRITING
programs = st.lists(
    st.tuples(st.integers(0, len(ALL) - 1), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=12
)
SHAPES = ((3, 4), (2, 2), (4, 6), (5, 3), (2, 7))


def _run(t: Any, program: Any, inputs: list[Any], differentiate: bool) -> list[Any]:
    values = [each.detach().requires_grad_(differentiate) for each in inputs]
    leaves = list(values)
    for step, first, second in program:
        values.append(ALL[step](t, values[-1 - first % len(values)], values[second % len(values)]))
    results = [values[-1], values[len(values) // 2]]
    if differentiate:
        total = sum((each * each).sum() for each in values[2:])
        if total.requires_grad:
            results += [each for each in t.autograd.grad(total, leaves, allow_unused=True) if each is not None]
    return results


@pytest.fixture
def engine(device: str) -> Iterator[Any]:
    found = engine_for(canonical_device(device))
    before = found.eager
    yield found
    found.eager = before


def drawn(count: int) -> Any:
    """Return what gives a test so many drawn programs."""
    chosen = settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    return lambda test: chosen(
        given(program=programs, shape=st.sampled_from(SHAPES), differentiate=st.booleans())(test)
    )


@drawn(5)
def test_few_fused_equals_eager(device: str, engine: Any, program: Any, shape: Any, differentiate: bool) -> None:
    check_fused(device, engine, program, shape, differentiate)


@pytest.mark.slow_on("webgpu")
@drawn(60)
def test_fused_equals_eager(device: str, engine: Any, program: Any, shape: Any, differentiate: bool) -> None:
    check_fused(device, engine, program, shape, differentiate)


@pytest.mark.slow
@drawn(400)
def test_more_fused_equals_eager(device: str, engine: Any, program: Any, shape: Any, differentiate: bool) -> None:
    check_fused(device, engine, program, shape, differentiate)


def check_fused(device: str, engine: Any, program: Any, shape: Any, differentiate: bool) -> None:
    source = [sample(shape, torch.float32, number, -1.5, 1.5) for number in range(2)]
    outcomes = []
    for eager in (False, True):
        engine.eager = eager
        outcomes.append(
            [to_torch(each) for each in _run(OURS, program, [to_ours(each, device) for each in source], differentiate)]
        )
    engine.eager = False
    expected = _run(ORACLE, program, source, differentiate)
    for fused, plain in zip(*outcomes, strict=True):
        torch.testing.assert_close(fused, plain, equal_nan=True)
    torch.testing.assert_close(outcomes[0][0], expected[0].detach(), equal_nan=True)


def _training(device: str) -> Any:
    weights = [
        to_ours(sample(shape, torch.float32, seed, -0.5, 0.5), device).requires_grad_()
        for seed, shape in enumerate(((8, 4), (8,), (3, 8)))
    ]
    moments = [OURS.zeros_like(each) for each in weights]
    x, y = to_ours(sample((6, 4), torch.float32, 7), device), to_ours(torch.tensor([0, 1, 2, 0, 1, 2]), device)

    def step(rate: float) -> Any:
        loss = OURS.F.cross_entropy(OURS.F.gelu(OURS.F.linear(x, weights[0], weights[1])) @ weights[2].t(), y)
        loss.backward()
        with OURS.no_grad():
            for weight, moment in zip(weights, moments, strict=True):
                moment.mul_(0.9).add_(weight.grad)
                weight.sub_(moment, alpha=rate)
                weight.grad = None
        return loss.item()

    return step


def test_a_loop_schedules_nothing_new(device: str, engine: Any) -> None:
    step = _training(device)
    losses = [step(0.01) for _ in range(3)]
    before = engine.statistics["scheduled"]
    losses += [step(0.01 + 0.0001 * number) for number in range(50)]
    assert engine.statistics["scheduled"] == before, "changing numbers and values must not schedule again"
    assert losses[-1] < losses[0] * 0.7


def _resident_bytes() -> int:
    """Return the memory of this process, 0 where the system does not say."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


@pytest.mark.parametrize("steps", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_memory_stays_flat(device: str, engine: Any, steps: int) -> None:
    step = _training(device)
    for _ in range(100):
        step(0.01)
    gc.collect()
    engine.device.synchronize()
    before, resident = engine.device.live_buffers(), _resident_bytes()
    gc.disable()
    try:
        for _ in range(steps):
            step(0.001)
        after = engine.device.live_buffers()
    finally:
        gc.enable()
    assert after <= before, f"{before} buffers became {after} in {steps} steps, without the cycle collector's help"
    grown = _resident_bytes() - resident
    # Room for the allocator; a buffer or a graph leaked in every step takes more.
    assert grown < 1 << 22, f"the process grew by {grown} bytes in {steps} steps"


def test_pointwise_chain_is_one_kernel(device: str, engine: Any) -> None:
    x = to_ours(sample((4, 5), torch.float32), device)
    engine.flush()
    before = engine.statistics["kernels"]
    y = ((x * 2 + 1).tanh() - x).relu()
    y.tolist()
    assert engine.statistics["kernels"] == before + 1


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations([1, 1, 3, 5]), st.sampled_from(sorted({*itertools.permutations(range(4))})))
def test_dimensions_of_one_element_part_no_kernels(device: str, engine: Any, sizes: list[int], order: Any) -> None:
    """Whatever strides views leave such dimensions, a value is a part of what reads it, and reads of it are one."""

    def kernels(given: Any) -> int:
        given.tolist()
        before = engine.statistics["kernels"]
        (given.float().square().mean(-1, keepdim=True) * given.float()).tolist()
        return engine.statistics["kernels"] - before

    given = OURS.randn(*sizes, device=device, dtype=OURS.bfloat16).permute(order)
    dense = OURS.randn(*(size for size in given.shape if size > 1), device=device, dtype=OURS.bfloat16)
    if (given.shape[-1] > 1) and [size for size in sizes if size > 1] == list(dense.shape):
        # The first time a part may run ahead that other tests have let the engine expect.
        assert min(kernels(given) for _ in range(3)) == min(kernels(dense) for _ in range(3)), given.stride()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(4)), st.booleans())
def test_a_permuted_tensor_takes_no_more_kernels(device: str, engine: Any, order: Any, halves: bool) -> None:
    """Rows of which something is computed, and halves that change places, are one kernel however they lie in memory."""
    shape = (2, 3, 5, 8)
    back = [order.index(place) for place in range(4)]
    # A part of something larger.
    whole = OURS.arange(480.0, device=device).sin().reshape([2 * shape[order[0]], *[shape[each] for each in order[1:]]])
    permuted = whole[: shape[order[0]]].permute(back)

    weight = OURS.arange(8.0, device=device)

    def kernels(given: Any) -> tuple[int, Any]:
        given.tolist()
        before = engine.statistics["kernels"]
        scale = (given.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        scaled = given * scale * weight
        other = given.unflatten(-1, (2, 4)).flip(-2).flatten(-2) * scale * weight if halves else scaled.exp()
        found = (scaled * weight.cos() + other * weight.sin()).flatten().tolist()
        return engine.statistics["kernels"] - before, found

    (fewest, expected), (count, found) = kernels(permuted.contiguous()), kernels(permuted)
    assert count == fewest and found == pytest.approx(expected, rel=1e-5, abs=1e-5), permuted.stride()


def test_equal_reductions_of_one_kernel_are_made_once(device: str, engine: Any) -> None:
    x = to_ours(sample((6, 5), torch.float32), device)
    engine.flush()
    before = set(map(id, engine.plans.values()))
    found = [x.sum(0), x.sum(0), x.amax(0), x.sum(0), x.var(0), x.var(0)]
    lists = [each.tolist() for each in found]
    assert lists[0] == lists[1] == lists[3] and lists[4] == lists[5] and lists[0] != lists[2]
    plans = [entry[0].plan for entry in engine.plans.values() if id(entry) not in before]
    programs = [step.kernel for plan in plans for step in plan.steps if step.kernel.form == "row program"]
    assert programs
    assert all(len(set(each.reductions)) == len(each.reductions) for each in programs)


def test_unread_values_are_not_computed(device: str, engine: Any) -> None:
    x = to_ours(sample((4, 5), torch.float32), device)
    engine.flush()
    before = engine.statistics["kernels"]
    (x * 3).exp().sum()
    engine.flush()
    assert engine.statistics["kernels"] == before


@pytest.fixture(scope="module")
def softstep() -> Iterator[Any]:
    @elementwise(promotion="float")
    def softstep(input, *, slope=1.0):
        """``1 / (1 + exp(-slope * input))``."""
        return 1.0 / (1.0 + exp(-(input * slope)))

    yield softstep
    OPERATIONS.pop("softstep")
    for name in ("softstep", "softstep_"):
        delattr(Tensor, name)


def test_a_definition_gives_function_method_gradient(softstep: Any, device: str) -> None:
    for slope in (1.0, 2.5):
        source = sample((3, 4), torch.float32).requires_grad_()
        expected = torch.sigmoid(source * slope)
        (wanted,) = torch.autograd.grad(expected.sum(), source, create_graph=True)
        (second,) = torch.autograd.grad(wanted.sum(), source)
        x = to_ours(source, device)
        y = softstep(x, slope=slope)
        (found,) = OURS.autograd.grad(y.sum(), x, create_graph=True)
        (again,) = OURS.autograd.grad(found.sum(), x)
        for ours, theirs in (
            (y, expected),
            (x.softstep(slope=slope), expected),
            (x.detach().clone().softstep_(slope=slope), expected),
            (found, wanted),
            (again, second),
        ):
            torch.testing.assert_close(to_torch(ours), theirs.detach())
    with pytest.raises(ValueError, match="declared twice"):
        elementwise(_named("softstep"))


def test_an_error_function_behind_arithmetic(device: str) -> None:
    """A software renderer once compiled the sign of large arguments wrong, in a kernel of just these steps."""
    value, mean, scale = (
        torch.tensor([[0.1, -2.0, 3.0], [1.0, 0.0, -1.0]]),
        torch.tensor([[0.5], [-1.0]]),
        torch.arange(1, 4) / 2,
    )
    expected = torch.erf((value - mean) * scale.reciprocal() / 2**0.5)
    x, y, z = (to_ours(each, device) for each in (value, mean, scale))
    torch.testing.assert_close(to_torch(OURS.erf((x - y) * z.reciprocal() / 2**0.5)), expected)


def _named(name: str) -> Any:
    def definition(input):
        return input

    definition.__name__ = name
    return definition
