"""The CPU device's vectorised random numbers are PyTorch's, bit for bit, and so is the generator afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from webgpu_torch_backend_cpu import random
from webgpu_torch_core.ir import dtypes
from webgpu_torch_core.random_streams import distributions as random_distributions
from webgpu_torch_core.random_streams.streams import MersenneTwister

FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
INTEGERS = (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
SIZES = (*range(1, 41), 1000, 1023, 1024, 1040, 65536 + 7)


def data(tensor: torch.Tensor) -> bytes:
    return tensor.view(torch.uint8).numpy().tobytes()


def check(kind: str, element: Any, first: Any, second: Any, expected: Any, sizes: Any = SIZES) -> None:
    """Draw all sizes from one stream on both sides: values, then the whole generator state, must be equal."""
    generator = MersenneTwister(11)
    torch.manual_seed(11)
    for count in sizes:
        drawn = random.draw(kind, generator, count, element, first, second)
        wanted = expected(torch.empty(count, dtype=getattr(torch, element.name)))
        assert bytes(memoryview(drawn).cast("B")) == data(wanted), (kind, count)
    assert generator.get_state() == torch.get_rng_state().numpy().tobytes()


@pytest.mark.parametrize("element", FLOATS, ids=repr)
@pytest.mark.parametrize(("first", "second"), [(0.0, 1.0), (-0.3, 2.7), (0.0, 1e-3), (5.0, 5.5), (100.0, 3000.0)])
def test_uniform_and_normal(element: Any, first: float, second: float) -> None:
    check("uniform", element, first, second, lambda t: t.uniform_(first, second))
    check("normal", element, first, second, lambda t: t.normal_(first, second))


@pytest.mark.parametrize("element", FLOATS, ids=repr)
def test_exponential(element: Any) -> None:
    for rate in (1.0, 1.7):
        check("exponential", element, rate, 0.0, lambda t, rate=rate: t.exponential_(rate))


@pytest.mark.parametrize("element", FLOATS, ids=repr)
@pytest.mark.parametrize(("first", "second"), [(1.0, 2.0), (-3.5, 0.25), (0.0, 60.0), (2.0, 1e-7)])
def test_log_normal_and_cauchy(element: Any, first: float, second: float) -> None:
    check("log_normal", element, first, second, lambda t: t.log_normal_(first, second))
    check("cauchy", element, first, second, lambda t: t.cauchy_(first, second))


@pytest.mark.parametrize("element", FLOATS, ids=repr)
def test_geometric(element: Any) -> None:
    for p in (1e-6, 0.3, 0.5, 0.97):
        check("geometric", element, p, 0.0, lambda t, p=p: t.geometric_(p))


@pytest.mark.parametrize("element", (*FLOATS, *INTEGERS, dtypes.bool_), ids=repr)
def test_bernoulli(element: Any) -> None:
    for p in (0.0, 0.3, 1.0):
        check("bernoulli", element, p, 0.0, lambda t, p=p: t.bernoulli_(p))


@pytest.mark.parametrize("element", (*INTEGERS, dtypes.float32, dtypes.float64), ids=repr)
def test_small_integers(element: Any) -> None:
    low = 0 if element is dtypes.uint8 else -5
    check("integers", element, low, 100, lambda t: t.random_(low, 100))


@pytest.mark.parametrize(
    ("low", "high"), [(-5, 2**28 - 6), (-5, 2**28 - 5), (0, 2**33 + 7), (-(2**62), 2**62), (-(2**63), 2**63 - 1)]
)
def test_large_integers(low: int, high: int) -> None:
    check("integers", dtypes.int64, low, high, lambda t: t.random_(low, high))


@pytest.mark.parametrize("element", FLOATS, ids=repr)
def test_a_million(element: Any) -> None:
    check("normal", element, 0.0, 1.0, lambda t: t.normal_(), (1000000,))
    check("uniform", element, 0.0, 1.0, lambda t: t.uniform_(), (1000000,))


@pytest.mark.parametrize("name", ["uniform_", "normal_", "exponential_", "cauchy_", "log_normal_", "geometric_"])
def test_types_that_are_not_drawn_are_refused_as_pytorch_does(name: str) -> None:
    import webgpu_torch as ours

    for element in ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "complex64", "complex128"):

        def told(library: Any, element: str = element) -> tuple[str, str] | None:
            tensor = library.zeros(3, dtype=getattr(library, element))
            try:
                getattr(tensor, name)(*((0.5,) if name == "geometric_" else ()))
            except (RuntimeError, TypeError) as error:
                return type(error).__name__, str(error)
            return None

        assert told(ours) == told(torch), element


def test_extreme_arguments_are_the_cores() -> None:
    for first, second in ((0.0, 1e300), (-1e300, 1e300), (1e-300, 2e-300)):
        ours = random.draw("uniform", MersenneTwister(5), 40, dtypes.float64, first, second)
        cores = random_distributions.fill_uniform(MersenneTwister(5), 40, dtypes.float64, first, second)
        assert bytes(memoryview(ours).cast("B")) == cores.tobytes()
    with pytest.raises(RuntimeError, match="std"):
        random.draw("normal", MersenneTwister(1), 100, dtypes.float32, 0.0, -1.0)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        random.draw("uniform", MersenneTwister(1), 100, dtypes.int64, 0.0, 1.0)
