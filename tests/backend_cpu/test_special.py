"""Special functions of float32 numbers against the same in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu import special

EVERYWHERE = np.concatenate([np.linspace(-104, 104, 40001), np.linspace(-1, 1, 40001), np.logspace(-38, 38, 4001)])
EDGES = np.array([0.0, -0.0, 1.0, -1.0, -2.0, np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45])
INSIDE = np.concatenate([np.linspace(-1, 1, 40001), 1 - np.logspace(-7.2, -1, 1001), np.logspace(-38, 0, 1001)])


@pytest.fixture(params=[False, True], ids=["by log and exp", "as the processor has it"])
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take NumPy's own functions where it has vector instructions for them, or nowhere."""
    if not request.param:
        monkeypatch.setattr(special, "_has_vectors", lambda name: False)


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("name", ["log1p", "expm1"])
def test_near_numpys(name: str) -> None:
    x = np.concatenate([EVERYWHERE, -EVERYWHERE, EDGES]).astype(np.float32)
    with np.errstate(all="ignore"):
        found, expected = getattr(special, name)(x), getattr(np, name)(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=6e-7, atol=0)
    assert np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[found == 0]))


def test_inverse_of_erf_near_that_in_double_precision() -> None:
    x = np.concatenate([INSIDE, -INSIDE, EDGES]).astype(np.float32)
    with np.errstate(all="ignore"):
        found, expected = special.erfinv(x), special.erfinv(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=6e-7, atol=0)


def test_erf_near_that_in_double_precision() -> None:
    x = np.concatenate([EVERYWHERE, np.linspace(-4.5, 4.5, 40001), -EVERYWHERE, EDGES]).astype(np.float32)
    with np.errstate(all="ignore"):
        found, expected = special.erf(x), special.erf(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=5e-7, atol=0)
    assert np.array_equal(np.signbit(found[x == 0]), np.signbit(expected[x == 0]))


@pytest.mark.parametrize("mode", ["0", "wait"])
def test_erf_is_one_where_it_rounds_to_it(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", mode)
    # PyTorch's own float32 differs in the last place from one processor to another.
    ends = torch.cat([torch.linspace(3.9194, 6, 5001), torch.logspace(0.8, 38, 501), torch.tensor([torch.inf])])
    with ours.device("cpu"):
        for each in (ends, -ends):
            expected = torch.erf(each.double()).float()
            assert torch.equal(expected.abs(), torch.ones_like(each))
            assert torch.equal(torch.from_numpy(ours.erf(ours.tensor(each.numpy())).numpy()), expected)
        assert ours.floor(ours.erf(ours.tensor(4.0))).item() == 1


def test_complement_of_erf_near_that_in_double_precision() -> None:
    x = np.concatenate([EVERYWHERE, np.linspace(-10, 9, 40001), -EVERYWHERE, EDGES]).astype(np.float32)
    with np.errstate(all="ignore"):
        found, expected = special.erfc(x), special.erfc(x.astype(np.float64)).astype(np.float32)
    # Below 1e-38 numbers have fewer digits.
    np.testing.assert_allclose(found, expected, rtol=6e-7, atol=1e-44)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_near_pytorchs(name: str, kind: torch.dtype) -> None:
    drawn = np.concatenate([np.random.default_rng(1).normal(size=20001) * 9, EVERYWHERE[::7], -EVERYWHERE[::7], EDGES])
    x = torch.tensor(drawn, dtype=kind)
    with np.errstate(all="ignore"):
        found = getattr(special, name)(x.numpy())
    # What lies next to a pole or zero of the one depends on the last digit of its argument.
    expected = getattr(torch, name)(x)
    doubtful = (getattr(torch, name)(torch.nextafter(x, x + 1)) - expected).abs() > 1e-6 * expected.abs()
    torch.testing.assert_close(torch.from_numpy(found)[~doubtful], expected[~doubtful], equal_nan=True)


def test_tails_of_erfinv_in_any_order_of_memory() -> None:
    x = np.linspace(-1, 1, 602, dtype=np.float32)[1:-1].reshape(20, 30) ** 3
    x[3, 4] = np.float32(1 - 2**-20)
    expected = special.erfinv(x.ravel()).reshape(x.shape)
    for laid in (np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], np.ascontiguousarray(x.T).T):
        assert np.array_equal(special.erfinv(laid), expected)
    np.testing.assert_allclose(special.erfinv(x[3, 4]), expected[3, 4], rtol=3e-7)


@pytest.mark.usefixtures("vectors")
@pytest.mark.parametrize("name", ["log1p", "expm1", "erf", "erfc", "erfinv"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(width=32) | st.floats(-2, 2, width=32), min_size=1, max_size=40))
def test_one_number_has_the_bits_that_it_has_among_others(name: str, numbers: list[float]) -> None:
    function, several = getattr(special, name), np.array(numbers, np.float32)
    with np.errstate(all="ignore"):
        together = function(several)
        for number, each in zip(together, several, strict=True):
            for alone in (function(each), function(np.asarray(each)), function(each.reshape(1))[0]):
                assert np.isnan(number) or np.float32(alone).tobytes() == number.tobytes()
