"""Long draws: NumPy's generator takes the stream over and hands it back, and the bits are PyTorch's."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
import torch
import webgpu_torch_core as core
from webgpu_torch_backend_cpu import permutations, random, uniform_numbers
from webgpu_torch_backend_cpu.normal_numbers import normal_singles
from webgpu_torch_core.random_streams.box_muller import normal_float32
from webgpu_torch_core.random_streams.streams import MersenneTwister
from webgpu_torch_core.record.devices import engine_for

FLOATS = ("float32", "float64", "float16", "bfloat16")
SIZES = (5, 17, 1000, 24_577, 60_003)
FILLS = {
    "uniform": lambda x: x.uniform_(-3, 2), "normal": lambda x: x.normal_(1, 0.3), "bernoulli": lambda x: x.bernoulli_(0.3),
    "exponential": lambda x: x.exponential_(1.7), "plain uniform": lambda x: x.uniform_(), "plain normal": lambda x: x.normal_(),
    "log-normal": lambda x: x.log_normal_(0.5, 1.5), "cauchy": lambda x: x.cauchy_(-1, 3), "geometric": lambda x: x.geometric_(0.2),
}  # fmt: skip


def check_equal(draw, seed: int) -> None:
    """Compare the draws, and where both streams stand afterwards."""
    torch.manual_seed(seed)
    core.manual_seed(seed)
    with core.device("cpu"):
        actual, expected = draw(core), draw(torch)
    assert actual.to(core.float64).tolist() == expected.double().tolist()
    assert bytes(core.get_rng_state().tolist()) == torch.get_rng_state().numpy().tobytes()


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("name", FILLS)
def test_fills(name, count):
    for kind in FLOATS:
        check_equal(lambda library, kind=kind: FILLS[name](library.empty(count, dtype=getattr(library, kind))), count)


def test_runs_of_several_pieces(monkeypatch):
    monkeypatch.setattr(random, "PIECE", 1 << 12)
    monkeypatch.setattr(random, "RUN", 1 << 11)
    monkeypatch.setattr(uniform_numbers, "BULK", 1 << 13)
    for count in (8191, 8192, 8193, 20_001):
        for name in FILLS:
            check_equal(lambda library, name=name, count=count: FILLS[name](library.empty(count)), count)
        check_equal(lambda library, count=count: library.randint(-5, 1000, (count,)), count)


def test_normal_numbers_of_words_at_bounds():
    """Where an angle's octant changes, a number's exponent does, or the mantissa of what is left of 1 is halved; and in between."""
    places = [turn << 20 for turn in range(17)] + [1 << power for power in range(24)]
    places += [round((1 - 2.0**-power * share) * 2**24) for power in range(24) for share in (0.5**0.5, 1.0)]
    near = np.unique(np.add.outer(places, np.arange(-40, 40)).clip(0, (1 << 24) - 1)).astype(np.uint32)
    between = np.random.default_rng(0).integers(0, 1 << 24, 40_000, np.uint32)
    words = np.concatenate((near, between, np.zeros(-(near.size + between.size) % 8, np.uint32)))
    # The bits above do not count. Each word is a length and an angle, with another one and with itself.
    words |= np.uint32(0xA5000000)
    blocks = np.concatenate([np.hstack((words.reshape(-1, 8), other.reshape(-1, 8))) for other in (words, words[::-1])])
    for mean, std in ((0.0, 1.0), (-0.3, 2.7)):
        found = np.empty(blocks.size, np.float32)
        normal_singles(blocks.reshape(-1), mean, std, found)
        expected = np.array(normal_float32(array("I", blocks.tobytes()), mean, std), np.float32)
        assert np.array_equal(found.view(np.int32), expected.view(np.int32))


def test_what_was_drawn_into_is_drawn_into_again(monkeypatch):
    device = engine_for(core.device("cpu")).device
    device.empty_cache()
    for draw in (core.randn, core.rand):
        tensor = draw(random.PIECE * 2, device="cpu")
        kept = device.pool.nbytes
        del tensor
        assert device.pool.nbytes == kept + random.PIECE * 8
    # What is as long as layers' weights, of which few have one size, is given back.
    monkeypatch.setattr(random, "MOST_KEPT", random.PIECE * 8 - 1)
    tensor = core.rand(random.PIECE * 2, device="cpu")
    kept = device.pool.nbytes
    del tensor
    assert device.pool.nbytes == kept
    seen = core.randn(1 << 14, device="cpu").numpy()
    before = seen.copy()
    core.randn(1 << 14, device="cpu")
    assert np.array_equal(seen, before)
    device.empty_cache()


@pytest.mark.parametrize("count", [0, 1, 2, 17, 1023, 1024, 1025, 3000, 100_000])
def test_permutations(count):
    for seed in range(3):
        check_equal(lambda library: library.randperm(count), seed)


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
@pytest.mark.parametrize("first", [300, 200_000_000, (1 << 31) - 1])
def test_remainders_of_words(kind, first):
    """Those by multiples and their neighbours, too."""
    by = np.arange(first, first - 200, -1).astype(kind)
    most = np.iinfo(np.uint32).max
    words = np.random.default_rng(0).integers(0, most, 200, kind, endpoint=True)
    words[:100] = most // by[:100] * by[:100] + np.resize(np.array([-1, 0, 1], np.int64), 100).astype(kind)
    assert permutations._rests(words, first).tolist() == [
        int(word) % int(each) for word, each in zip(words, by, strict=True)
    ]


def test_permutations_in_pieces(monkeypatch):
    """Words end with a piece, one before or after it; many exchanges made at once share their places."""
    for name, value in {"CHUNK": 1 << 6, "LEAST": 1 << 3, "OF_ROOT": 30}.items():
        monkeypatch.setattr(permutations, name, value)
    for count in (63, 64, 65, 66, 128, 129, 130, 1000, 9000):
        for seed in range(5):
            check_equal(lambda library, count=count: library.randperm(count), seed)


@pytest.mark.parametrize(
    ("rows", "categories", "samples"), [(3, 7, 2), (1, 5000, 1), (4, 3000, 30), (2, 3000, 2900), (2, 17, 17)]
)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_multinomial(rows, categories, samples, kind):
    def weights(library):
        return library.rand(rows, categories, dtype=getattr(library, kind))

    check_equal(lambda library: library.multinomial(weights(library) + 0.01, samples), 1)
    check_equal(lambda library: library.multinomial(weights(library), samples, replacement=True), 2)
    check_equal(lambda library: library.multinomial((weights(library) > 0.5).to(getattr(library, kind)), 1), 3)


def test_one_sample_of_many_weights_is_drawn_at_once(monkeypatch):
    monkeypatch.setattr(random.drawing, "draw", None)
    for replacement in (False, True):
        check_equal(lambda library: library.multinomial(library.rand(2, 700), 1, replacement=replacement), 1)


@pytest.mark.parametrize("count", [7, 9000])
def test_draws_with_arguments_of_their_own(count):
    for kind in ("float32", "float64"):
        check_equal(lambda library, kind=kind: library.bernoulli(library.rand(count, dtype=getattr(library, kind))), 1)
    check_equal(lambda library: library.poisson(library.rand(count) * 20), 2)
    check_equal(lambda library: library.binomial(library.full((count,), 30.0), library.rand(count)), 3)


def test_results_in_doubt_are_computed_exactly():
    """NumPy's logarithms may differ from the C library's in the last bit; single precision must not show it."""
    arguments = np.array([0.5, 0.25])
    exact = {0.5: 0.3, 0.25: 0.4}
    boundary = (np.float64(np.float32(0.1)) + np.float64(np.nextafter(np.float32(0.1), np.float32(1)))) / 2
    found = random._rounded(arguments, np.array([boundary, 1.0]), exact.__getitem__)
    assert found.tolist() == [np.float32(0.3), 1.0]


def test_more_words_than_one_call_gives(monkeypatch):
    from webgpu_torch_core.random_streams import streams

    expected = MersenneTwister(3).words(1000)
    monkeypatch.setattr(streams, "_WORDS_AT_ONCE", 64)
    assert MersenneTwister(3).words(1000) == expected


def test_a_filled_tensor_takes_the_drawn_memory_over():
    with core.device("cpu"):
        device = engine_for(core.device("cpu")).device
        core.manual_seed(2)
        drawn = core.rand(70_000)
        before = device.memory_allocated()
        x = core.empty(70_000)
        part, kept = x[5:9], x.uniform_()
        assert device.memory_allocated() - before == x.numel() * 4
        core.manual_seed(2)
        x.uniform_()
        x.add_(1)
        assert kept is x
        assert part.tolist() == (drawn[5:9] + 1).tolist()
        assert device.memory_allocated() - before == x.numel() * 4


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_weights_with_few_digits(kind):
    def draws(library):
        weights = library.arange(1, 9, dtype=getattr(library, kind)).repeat(3, 7000)
        return library.multinomial(weights, 3000, replacement=True)

    for seed in range(3):
        check_equal(draws, seed)
