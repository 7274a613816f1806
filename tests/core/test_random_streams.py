"""The CPU random streams are PyTorch's, bit for bit."""

from __future__ import annotations

import math

import pytest
import torch
from webgpu_torch_core.ir import dtypes
from webgpu_torch_core.ir.scalar_math import fused_multiply_add
from webgpu_torch_core.random_streams import distributions as distributions
from webgpu_torch_core.random_streams.streams import MersenneTwister, uniform_words

SIZES = (0, 1, 5, 15, 16, 17, 31, 32, 100, 1000)
FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
INTEGERS = (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)


def torch_dtype(element):
    return getattr(torch, element.name)


def data(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def check(draw, expected, seed=11):
    """Draw twice from one seed on both sides: values, then the whole generator state, must be equal."""
    generator = MersenneTwister(seed)
    torch.manual_seed(seed)
    for _ in range(2):
        assert draw(generator).tobytes() == data(expected())
    assert generator.get_state() == torch.get_rng_state().numpy().tobytes()


@pytest.mark.parametrize("element", FLOATS, ids=repr)
def test_rand_and_randn(element):
    kind = torch_dtype(element)
    for n in SIZES:
        check(lambda g, n=n: distributions.fill_uniform(g, n, element), lambda n=n: torch.rand(n, dtype=kind))
        check(lambda g, n=n: distributions.fill_normal(g, n, element), lambda n=n: torch.randn(n, dtype=kind))


@pytest.mark.parametrize("element", FLOATS, ids=repr)
@pytest.mark.parametrize(("first", "second"), [(-0.3, 2.7), (0.0, 1e-3), (5.0, 5.5), (100.0, 3000.0)])
def test_bounds_and_moments(element, first, second):
    def empty(n):
        return torch.empty(n, dtype=torch_dtype(element))

    for n in (3, 15, 16, 1000):
        check(
            lambda g, n=n: distributions.fill_uniform(g, n, element, first, second),
            lambda n=n: empty(n).uniform_(first, second),
        )
        check(
            lambda g, n=n: distributions.fill_normal(g, n, element, first, second),
            lambda n=n: empty(n).normal_(first, second),
        )


@pytest.mark.parametrize("element", FLOATS, ids=repr)
def test_other_continuous_distributions(element):
    def empty(n):
        return torch.empty(n, dtype=torch_dtype(element))

    for n in (0, 1, 15, 300):
        check(lambda g, n=n: distributions.fill_exponential(g, n, element), lambda n=n: empty(n).exponential_())
        check(lambda g, n=n: distributions.fill_exponential(g, n, element, 1.7), lambda n=n: empty(n).exponential_(1.7))
        check(lambda g, n=n: distributions.fill_log_normal(g, n, element), lambda n=n: empty(n).log_normal_())
        check(lambda g, n=n: distributions.fill_cauchy(g, n, element, 0.3, 1.1), lambda n=n: empty(n).cauchy_(0.3, 1.1))
        check(lambda g, n=n: distributions.fill_geometric(g, n, element, 0.3), lambda n=n: empty(n).geometric_(0.3))


def test_many_normals():
    check(lambda g: distributions.fill_normal(g, 60001), lambda: torch.randn(60001), seed=3)
    check(
        lambda g: distributions.fill_normal(g, 5000, dtypes.float64, 0.1, 3.3),
        lambda: torch.empty(5000, dtype=torch.float64).normal_(0.1, 3.3),
    )


def test_complex():
    for n in (1, 7, 8, 100):
        check(
            lambda g, n=n: distributions.fill_normal(g, n, dtypes.complex64),
            lambda n=n: torch.randn(n, dtype=torch.complex64),
        )
        check(
            lambda g, n=n: distributions.fill_uniform(g, n, dtypes.complex64),
            lambda n=n: torch.rand(n, dtype=torch.complex64),
        )


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 10), (-5, 2**28 - 6), (-5, 2**28 - 5), (0, 2**33 + 7), (-(2**62), 2**62), (-(2**63), 2**63 - 1)],
)
def test_randint(low, high):
    for n in (0, 1, 17, 300):
        check(lambda g, n=n: distributions.fill_integers(g, n, low, high), lambda n=n: torch.randint(low, high, (n,)))


@pytest.mark.parametrize("element", INTEGERS, ids=repr)
def test_random_integers(element):
    kind = torch_dtype(element)
    check(lambda g: distributions.fill_random(g, 50, element), lambda: torch.empty(50, dtype=kind).random_())
    check(
        lambda g: distributions.fill_integers(g, 50, 3, 100, element), lambda: torch.randint(3, 100, (50,), dtype=kind)
    )
    check(
        lambda g: distributions.fill_integers(g, 50, 7, None, element),
        lambda: torch.empty(50, dtype=kind).random_(7, None),
    )


@pytest.mark.parametrize("element", (*FLOATS, dtypes.bool_), ids=repr)
def test_random_without_bounds(element):
    kind = torch_dtype(element)
    check(lambda g: distributions.fill_random(g, 50, element), lambda: torch.empty(50, dtype=kind).random_())


@pytest.mark.parametrize("n", [0, 1, 2, 16, 1000, 2**16 + 5])
def test_permutation(n):
    check(lambda g: distributions.fill_permutation(g, n), lambda: torch.randperm(n))


@pytest.mark.parametrize("element", (*FLOATS, *INTEGERS, dtypes.bool_), ids=repr)
def test_bernoulli(element):
    kind = torch_dtype(element)
    for p in (0.0, 0.3, 0.5, 1.0):
        check(
            lambda g, p=p: distributions.fill_bernoulli(g, 100, p, element),
            lambda p=p: torch.empty(100, dtype=kind).bernoulli_(p),
        )
    if element in FLOATS:
        weights = torch.linspace(0, 1, 100, dtype=kind)
        check(
            lambda g: distributions.fill_bernoulli(g, 100, weights.tolist(), element, element),
            lambda: torch.bernoulli(weights),
        )


@pytest.mark.parametrize("element", FLOATS, ids=repr)
@pytest.mark.parametrize(("samples", "replacement"), [(1, False), (1, True), (3, False), (7, False), (40, True)])
def test_multinomial(element, samples, replacement):
    weights = torch.tensor([[0.1, 2.0, 0.3, 0.4, 5.0, 0.6, 0.7], [1, 1, 1, 1, 1, 1, 1]], dtype=torch_dtype(element))
    for table in (weights, weights[0]):
        rows = table.reshape(-1, 7)
        check(
            lambda g, rows=rows: distributions.fill_multinomial(
                g, rows.reshape(-1).tolist(), rows.shape[0], samples, replacement, element
            ),
            lambda table=table: torch.multinomial(table, samples, replacement),
        )


def test_mixed_calls_share_one_stream():
    generator = MersenneTwister(0).manual_seed(123)
    torch.manual_seed(123)
    for n in (1, 3, 20, 5, 700, 2):
        assert distributions.fill_normal(generator, n).tobytes() == data(torch.randn(n))
        assert distributions.fill_integers(generator, n, 0, 9).tobytes() == data(torch.randint(9, (n,)))
        double = distributions.fill_normal(generator, n, dtypes.float64)
        assert double.tobytes() == data(torch.randn(n, dtype=torch.float64))
        assert distributions.fill_permutation(generator, n).tobytes() == data(torch.randperm(n))
        assert distributions.fill_uniform(generator, n).tobytes() == data(torch.rand(n))
    assert generator.get_state() == torch.get_rng_state().numpy().tobytes()


@pytest.mark.parametrize("drawn", [0, 1, 623, 624, 625, 2000])
def test_state_exchange(drawn):
    torch.manual_seed(5)
    torch.rand(drawn)
    torch.randn(1)  # leaves a cached normal
    generator = MersenneTwister()
    generator.set_state(torch.get_rng_state().numpy().tobytes())
    assert generator.initial_seed() == torch.initial_seed() == 5
    assert distributions.fill_normal(generator, 40).tobytes() == data(torch.randn(40))
    torch.set_rng_state(torch.frombuffer(bytearray(generator.get_state()), dtype=torch.uint8))
    copy = generator.clone_state()
    expected = data(torch.randn(3))
    assert distributions.fill_normal(generator, 3).tobytes() == expected
    assert distributions.fill_normal(copy, 3).tobytes() == expected


@pytest.mark.parametrize("seed", [0, 1, -1, -(2**63), 2**32, 2**63 + 17, 2**64 - 1])
def test_seeds(seed):
    torch.manual_seed(seed)
    generator = MersenneTwister().manual_seed(seed)
    assert generator.initial_seed() == torch.initial_seed()
    assert generator.get_state() == torch.get_rng_state().numpy().tobytes()
    assert distributions.fill_uniform(generator, 3).tobytes() == data(torch.rand(3))


def test_words_are_the_raw_material():
    generator, other = MersenneTwister(9), MersenneTwister(9)
    words = uniform_words(generator, 100)
    assert [(word & 0xFFFFFF) * 2.0**-24 for word in words] == distributions.fill_uniform(other, 100).tolist()
    assert [other.random(), other.random64()] == [generator.words(1)[0], generator.words64(1)[0]]


def test_seed_draws_new_streams():
    generator = MersenneTwister()
    first = generator.seed()
    assert generator.initial_seed() == first
    assert generator.seed() != first


@pytest.mark.parametrize(
    "broken",
    [b"", bytes(5056), MersenneTwister(1).get_state()[:-1], b"\xff" * 5056],
    ids=["empty", "zero", "short", "ff"],
)
def test_bad_states_are_refused(broken):
    generator = MersenneTwister(4)
    before = generator.get_state()
    with pytest.raises(RuntimeError, match="state"):
        generator.set_state(broken)
    assert generator.get_state() == before


def test_bad_arguments():
    generator = MersenneTwister(4)
    with pytest.raises(ValueError, match="Overflow"):
        generator.manual_seed(2**64)
    with pytest.raises(RuntimeError, match="less than"):
        distributions.fill_integers(generator, 3, 5, 5)
    with pytest.raises(RuntimeError, match="out of bounds"):
        distributions.fill_integers(generator, 3, 0, 300, dtypes.uint8)
    with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
        distributions.fill_bernoulli(generator, 3, 1.5)
    with pytest.raises(RuntimeError, match="without replacement"):
        distributions.fill_multinomial(generator, [1.0, 2.0], 1, 3)
    with pytest.raises(RuntimeError, match="sum of probabilities"):
        distributions.fill_multinomial(generator, [0.0, 0.0], 1, 1)
    with pytest.raises(NotImplementedError, match="\"check_uniform_bounds\" not implemented for 'Long'"):
        distributions.fill_uniform(generator, 3, dtypes.int64)


def test_fused_multiply_add_rounds_once():
    from fractions import Fraction
    from random import Random

    random = Random(1)
    for _ in range(3000):
        a = random.uniform(-1, 1) * 2.0 ** random.randint(-5, 5)
        b = random.uniform(-1, 1) * 2.0 ** random.randint(-60, 5)
        c = random.choice([random.uniform(-1, 1), -a * b, -a * b * (1 + 2**-50), 2.0 ** random.randint(-3, 3)])
        assert fused_multiply_add(a, b, c) == float(Fraction(a) * Fraction(b) + Fraction(c))
    assert math.isinf(fused_multiply_add(1e300, 1e300, 0.0))
