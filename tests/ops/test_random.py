"""Seeded draws equal PyTorch's CPU streams."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core
from ops_oracle import ORACLE, OURS, compare, sample, to_ours

DRAWS = {
    "rand": lambda t, n: t.rand(n),
    "randn": lambda t, n: t.randn(n),
    "randn 2": lambda t, n: t.randn(2, n),
    "rand float64": lambda t, n: t.rand(n, dtype=t.float64),
    "randn float64": lambda t, n: t.randn(n, dtype=t.float64),
    "rand half": lambda t, n: t.rand(n, dtype=t.float16),
    "randint": lambda t, n: t.randint(0, 10, (n,)),
    "randint low": lambda t, n: t.randint(-5, 100, (n,)),
    "randint large": lambda t, n: t.randint(0, 2**40, (n,)),
    "randint high": lambda t, n: t.randint(7, (n,)),
    "randint int32": lambda t, n: t.randint(0, 9, (n,), dtype=t.int32),
    "randperm": lambda t, n: t.randperm(n),
    "normal_": lambda t, n: t.empty(n).normal_(1, 2),
    "uniform_": lambda t, n: t.empty(n).uniform_(-2, 3),
    "bernoulli": lambda t, n: t.bernoulli(t.full((n,), 0.3)),
    "bernoulli_": lambda t, n: t.empty(n).bernoulli_(0.3),
    "dropout": lambda t, n: t.F.dropout(t.ones(n), 0.4),
    "rand_like": lambda t, n: t.rand_like(t.zeros(n)),
    "randn_like": lambda t, n: t.randn_like(t.zeros(n)),
    "normal": lambda t, n: t.normal(0.5, 2.0, (n,)),
    "exponential_": lambda t, n: t.empty(n).exponential_(2.0),
    "random_": lambda t, n: t.empty(n, dtype=t.int64).random_(0, 50),
    "several": lambda t, n: (t.rand(n), t.randn(n), t.randint(0, 5, (n,)), t.rand(3), t.randperm(n)),
    "multinomial": lambda t, n: t.multinomial(t.ones(n), n),
    "multinomial one": lambda t, n: t.multinomial(t.ones(4, n), 1),
    "multinomial replacement": lambda t, n: t.multinomial(t.ones(n), 5, replacement=True),
    "randint_like": lambda t, n: t.randint_like(t.zeros(n), 9),
    "generator": lambda t, n: t.rand(n, generator=t.Generator().manual_seed(3)),
    "half normal": lambda t, n: t.randn(n, dtype=t.float16),
    "normal tensors": lambda t, n: t.normal(t.zeros(n), t.ones(n)),
}


@pytest.fixture(autouse=True)
def _on_the_cpu():
    import webgpu_torch_core as core

    core.set_default_device("cpu")
    yield
    core.set_default_device(None)


@pytest.mark.parametrize("count", [1, 5, 15, 16, 17, 100, 1000])
@pytest.mark.parametrize("name", sorted(DRAWS))
def test_equal_streams(name: str, count: int) -> None:
    for seed in (0, 42):
        ORACLE.manual_seed(seed)
        OURS.manual_seed(seed)
        compare(DRAWS[name](OURS, count), DRAWS[name](ORACLE, count), where=f"{name} {count} seed {seed}")


def test_state_is_portable() -> None:
    torch.manual_seed(5)
    torch.rand(7)
    OURS.manual_seed(5)
    OURS.rand(7)
    state = OURS.get_rng_state()
    first = OURS.randn(20)
    OURS.set_rng_state(state)
    compare(OURS.randn(20), torch.randn(20))
    assert first.tolist() == pytest.approx(first.tolist())


def test_draws_on_a_device_repeat(device: str) -> None:
    def draw():
        OURS.manual_seed(9)
        return OURS.rand(50, device=device).tolist() + OURS.randn(50, device=device).tolist()

    assert draw() == draw()


def test_dropout_gradient(device: str) -> None:
    x = to_ours(sample((100,), torch.float32, 0, 1, 2).requires_grad_(), device)
    y = OURS.F.dropout(x, 0.5)
    y.sum().backward()
    for value, slope in zip((y / x).detach().tolist(), x.grad.tolist(), strict=True):
        assert value == pytest.approx(slope) and (slope == 0 or slope == pytest.approx(2))


def test_multinomial_weights(device: str) -> None:
    weights = to_ours(torch.tensor([0.0, 1.0, 0.0, 3.0]), device)
    drawn = OURS.multinomial(weights, 2000, replacement=True).tolist()
    assert set(drawn) == {1, 3} and 0.68 < drawn.count(3) / 2000 < 0.82
    assert sorted(OURS.multinomial(weights, 2).tolist()) == [1, 3]


@pytest.mark.parametrize("kind", ["complex64", "bool"])
@pytest.mark.parametrize("name", ["exponential_", "log_normal_", "cauchy_", "geometric_"])
def test_numbers_that_pytorch_does_not_draw(kind: str, name: str) -> None:
    arguments = (0.5,) if name == "geometric_" else ()
    for library in (webgpu_torch_core, torch):
        empty = library.empty(3, dtype=getattr(library, kind), device="cpu")
        with pytest.raises(RuntimeError):
            getattr(empty, name)(*arguments)


RANGES = [
    (0.0, float("inf")),
    (float("nan"), 1.0),
    (2.0, 1.0),
    (-3.4e38, 3.4e38),
    (0.0, 1e39),
    (-65504.0, 65504.0),
    (-1.0, 1.0),
]


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("ends", RANGES, ids=str)
def test_ranges_that_a_type_does_not_hold(ends: tuple[float, float], kind: str) -> None:
    def run(library: Any) -> str:
        try:
            return str(tuple(library.empty(3, dtype=getattr(library, kind)).uniform_(*ends).shape))
        except RuntimeError as error:
            return str(error)

    assert run(OURS) == run(torch)
