"""Draws by compiled samplers: PyTorch's bits, and its stream where it stands afterwards."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch_core as core
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_cpu import compiled_draws
from webgpu_torch_backend_cpu.jit import samplers

pytest.importorskip("llvmlite")

COUNTS = st.integers(samplers.WORTH, 3 * samplers.WORTH) | st.sampled_from((1 << 14, 100_003))
FLOATS = st.sampled_from(("float32", "float64", "bfloat16"))


def check(draw: Callable[[ModuleType], Any], seed: int) -> None:
    """Compare a draw, and what the streams give next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEBGPU_TORCH_CPU_JIT", "wait")
        torch.manual_seed(seed)
        core.manual_seed(seed)
        with core.device("cpu"):
            actual, expected = draw(core), draw(torch)
        assert actual.to(core.float64).tolist() == expected.double().tolist()
        assert bytes(core.get_rng_state().tolist()) == torch.get_rng_state().numpy().tobytes()


@settings(max_examples=15, deadline=None)
@given(COUNTS, st.integers(0, 99), FLOATS, st.floats(-9, 9), st.floats(0, 9))
def test_drawn_normal_numbers(count: int, seed: int, kind: str, mean: float, std: float) -> None:
    check(lambda library: library.empty(count, dtype=getattr(library, kind)).normal_(mean, std), seed)
    check(lambda library: library.randn(count, dtype=getattr(library, kind)), seed)


@settings(max_examples=15, deadline=None)
@given(COUNTS, st.integers(0, 99))
def test_drawn_permutations(count: int, seed: int) -> None:
    check(lambda library: library.randperm(count), seed)


@settings(max_examples=15, deadline=None)
@given(
    COUNTS, st.integers(0, 99), st.sampled_from((0.01, 3.0, 12.0, 40.0, 1e4)), st.sampled_from(("float32", "float64"))
)
def test_drawn_counts(count: int, seed: int, most: float, kind: str) -> None:
    def draw(library: ModuleType) -> Any:
        rates = library.rand(count, dtype=getattr(library, kind)) * most
        rates[:: max(count // 7, 1)] = 0.0
        return library.poisson(rates)

    check(draw, seed)


def test_counts_by_few_words_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_draws, "AHEAD", 1 << 10)
    for most in (1.0, 30.0):
        check(lambda library, most=most: library.poisson(library.rand(samplers.WORTH) * most), 3)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 9), st.integers(1, 5000), st.integers(2, 900), st.integers(0, 99), st.sampled_from(("float32", "float64"))
)  # fmt: skip
def test_drawn_by_weight(rows: int, count: int, samples: int, seed: int, kind: str) -> None:
    def draw(library: ModuleType) -> Any:
        weights = library.rand(rows, count, dtype=getattr(library, kind)) + 1e-3
        weights[:, : count // 2] = 0.0
        return library.multinomial(weights, samples, replacement=True)

    check(draw, seed)


def test_samplers_are_used_where_there_is_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, expected in (("wait", True), ("0", False)):
        monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", mode)
        assert all((samplers.sampler(name, samplers.WORTH) is not None) is expected for name in samplers._TEXTS)
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "wait")
    # What is asked for often is worth it, too.
    samplers._asked.clear()
    assert samplers.sampler("poisson", samplers.WORTH - 1) is None
    assert (samplers.sampler("poisson", 1) is None) == (samplers.sampler("poisson", samplers.WORTH) is None)


def test_permutation_by_wide_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBGPU_TORCH_CPU_JIT", "wait")
    words = np.random.default_rng(0).integers(0, 1 << 64, samplers.WORTH, np.uint64)
    monkeypatch.setattr(compiled_draws, "words", lambda _, count, kind: words[:count].astype(kind))
    found = compiled_draws.permutation(core.default_generator.host_stream(), samplers.WORTH, np.uint64)
    expected = list(range(samplers.WORTH))
    for place, word in enumerate(words[:-1].tolist()):
        other = place + word % (samplers.WORTH - place)
        expected[place], expected[other] = expected[other], expected[place]
    assert found is not None and found.tolist() == expected
