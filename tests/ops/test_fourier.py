"""torch.fft, short-time Fourier transforms and window functions against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch_core as core
from hypothesis import given, settings, strategies
from ops_oracle import to_ours, to_torch

# Direct products, one and two stages, primes by product and by convolution, products of both.
LENGTHS = (1, 2, 5, 16, 60, 64, 65, 97, 128, 360, 1000, 521, 1042)
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = tuple(f"{name}{kind}" for name in ONE for kind in "2n")
REAL_INPUT = ("rfft", "ihfft")


def source(name: str, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    kind = torch.float32 if name.startswith(REAL_INPUT) else torch.complex64
    return torch.randn(*shape, dtype=kind, generator=generator)


def assert_near(actual: Any, exact: torch.Tensor) -> None:
    """Check a transform against double precision: single precision loses digits relative to the largest number."""
    size = exact.abs().max().item() if exact.numel() else 1.0
    found = to_torch(actual)
    assert tuple(found.shape) == tuple(exact.shape)
    assert found.is_complex() == exact.is_complex()
    assert (found - exact).abs().max().item() <= 1e-6 * max(size, 1e-30)


@pytest.mark.parametrize("name", ONE)
def test_lengths(name: str, device: str) -> None:
    for length in LENGTHS:
        given = source(name, 2, length)
        if length == 1 and name in ("irfft", "hfft"):
            continue
        exact = getattr(torch.fft, name)(given.to(torch.complex128 if given.is_complex() else torch.float64))
        assert_near(getattr(core.fft, name)(to_ours(given, device)), exact)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("options", [{"n": 7}, {"n": 20, "norm": "ortho"}, {"dim": 0, "norm": "forward"}, {"dim": 1}])
def test_options(name: str, options: dict[str, Any], device: str) -> None:
    given = source(name, 6, 9, 4)
    expected = getattr(torch.fft, name)(given, **options)
    torch.testing.assert_close(to_torch(getattr(core.fft, name)(to_ours(given, device), **options)), expected)


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize(
    "options", [{}, {"s": (5, 4), "dim": (0, 2), "norm": "ortho"}, {"s": (-1, 6), "norm": "forward"}]
)
def test_several_dimensions(name: str, options: dict[str, Any], device: str) -> None:
    given = source(name, 3, 6, 4)
    expected = getattr(torch.fft, name)(given, **options)
    torch.testing.assert_close(to_torch(getattr(core.fft, name)(to_ours(given, device), **options)), expected)


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "ihfft", "fft2", "irfftn"])
def test_gradients(name: str, device: str) -> None:
    given = source(name, 3, 70)
    theirs, ours = given.clone().requires_grad_(), to_ours(given, device).requires_grad_()
    expected, actual = getattr(torch.fft, name)(theirs, norm="ortho"), getattr(core.fft, name)(ours, norm="ortho")
    seed = torch.randn_like(expected)
    torch.testing.assert_close(
        to_torch(core.autograd.grad(actual, ours, to_ours(seed, device))[0]),
        torch.autograd.grad(expected, theirs, seed)[0],
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_integers_and_empty_batches(device: str) -> None:
    numbers = torch.arange(12).reshape(3, 4)
    torch.testing.assert_close(to_torch(core.fft.fft(to_ours(numbers, device))), torch.fft.fft(numbers))
    assert core.fft.rfft(core.zeros(0, 5, device=device)).shape == (0, 3)


def test_frequencies_and_shifts(device: str) -> None:
    for n in (1, 4, 5):
        torch.testing.assert_close(to_torch(core.fft.fftfreq(n, 0.5, device=device)), torch.fft.fftfreq(n, 0.5))
        torch.testing.assert_close(to_torch(core.fft.rfftfreq(n, device=device)), torch.fft.rfftfreq(n))
    given = source("fft", 3, 4)
    for options in ({}, {"dim": 1}, {"dim": (0, -1)}):
        for name in ("fftshift", "ifftshift"):
            found = getattr(core.fft, name)(to_ours(given, device), **options)
            assert torch.equal(to_torch(found), getattr(torch.fft, name)(given, **options))


def test_out() -> None:
    given = source("fft", 3, 4)
    out = core.empty(0, dtype=core.complex64)
    assert core.fft.fft(to_ours(given, "cpu"), out=out) is out
    torch.testing.assert_close(to_torch(out), torch.fft.fft(given))


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: t.fft.fft(x, n=0),
        lambda t, x: t.fft.rfft(x * 1j),
        lambda t, x: t.fft.fft(x, norm="loud"),
        lambda t, x: t.fft.fftn(x, dim=(0, 0)),
        lambda t, x: t.fft.fftn(x, s=(1, 2, 3, 4)),
        lambda t, x: t.fft.irfft(x[:, :1]),
        lambda t, x: t.stft(x, 2),
        lambda t, x: t.stft(x, 40, return_complex=True, center=False),
        lambda t, x: t.istft(x, 4),
        lambda t, x: t.hann_window(-1),
    ],
)
def test_errors(call: Any) -> None:
    with pytest.raises(RuntimeError):
        call(torch, torch.ones(3, 4))
    with pytest.raises(RuntimeError):
        call(core, core.ones(3, 4))


FRAMES = [
    {"n_fft": 16, "window": "hann_window"},
    {"n_fft": 16, "hop_length": 5, "window": "hamming_window"},
    {"n_fft": 15, "hop_length": 4, "window": "blackman_window", "normalized": True},
    {"n_fft": 16, "win_length": 12, "hop_length": 3, "window": "kaiser_window", "onesided": False},
    {"n_fft": 20, "hop_length": 1, "window": "bartlett_window"},
    {"n_fft": 16, "center": False, "window": "hamming_window"},
]


@pytest.mark.parametrize("options", FRAMES)
def test_short_time_transforms(options: dict[str, Any], device: str) -> None:
    options = dict(options)
    window = getattr(torch, options.pop("window"))(options.get("win_length", options["n_fft"]))
    signal = source("rfft", 2, 100)
    theirs, ours = signal.clone().requires_grad_(), to_ours(signal, device).requires_grad_()
    expected = torch.stft(theirs, window=window, return_complex=True, **options)
    actual = core.stft(ours, window=to_ours(window, device), return_complex=True, **options)
    torch.testing.assert_close(to_torch(actual), expected.detach(), rtol=1e-5, atol=1e-5)
    back = core.istft(actual, window=to_ours(window, device), length=90, **options)
    torch.testing.assert_close(
        to_torch(back), torch.istft(expected, window=window, length=90, **options).detach(), rtol=1e-4, atol=1e-4
    )
    seed = torch.randn_like(expected)
    torch.testing.assert_close(
        to_torch(core.autograd.grad(actual, ours, to_ours(seed, device))[0]),
        torch.autograd.grad(expected, theirs, seed)[0],
        rtol=1e-4, atol=1e-4,
    )  # fmt: skip


def test_istft_needs_windows_that_cover() -> None:
    spectrum = core.stft(core.ones(40), 8, window=core.hann_window(8), center=False, return_complex=True)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        core.istft(spectrum, 8, window=core.hann_window(8), center=False)


@pytest.mark.parametrize("name", [name for name in torch.signal.windows.__all__ if not name.startswith("general")])
def test_signal_windows(name: str, device: str) -> None:
    for count in (0, 1, 2, 7, 10):
        for symmetric in (True, False):
            found = getattr(core.signal.windows, name)(count, sym=symmetric, device=device)
            torch.testing.assert_close(to_torch(found), getattr(torch.signal.windows, name)(count, sym=symmetric))


def test_general_windows() -> None:
    theirs, ours = torch.signal.windows, core.signal.windows
    weights = [0.4, 0.3, 0.2, 0.1]
    torch.testing.assert_close(to_torch(ours.general_cosine(9, a=weights)), theirs.general_cosine(9, a=weights))
    torch.testing.assert_close(to_torch(ours.general_hamming(9, alpha=0.6)), theirs.general_hamming(9, alpha=0.6))
    torch.testing.assert_close(to_torch(ours.gaussian(9, std=2.5)), theirs.gaussian(9, std=2.5))
    with pytest.raises(ValueError, match="Tau must be positive"):
        ours.exponential(5, tau=0)
    with pytest.raises(ValueError, match="non-negative window length"):
        ours.hann(-1)


@settings(max_examples=25, deadline=None)
@given(
    name=strategies.sampled_from(ONE),
    shape=strategies.tuples(strategies.integers(1, 3), strategies.integers(2, 9)),
    n=strategies.none() | strategies.integers(2, 12),
    dim=strategies.sampled_from((0, -1)),
    norm=strategies.sampled_from((None, "ortho", "forward")),
    as_captured=strategies.booleans(),
)
def test_drawn_transforms_and_their_gradients(
    name: str, shape: tuple[int, int], n: int | None, dim: int, norm: str | None, as_captured: bool
) -> None:
    if n is None and dim == 0 and shape[0] == 1:
        n = 2
    given_ = source(name, *shape).to(torch.float64 if name in REAL_INPUT else torch.complex128)

    def run(library: Any, x: Any, seed: Any) -> tuple[Any, ...]:
        result = getattr(library.fft, name)(x, n, dim, norm)
        weight = seed[: result.shape[0], : result.shape[1]]
        loss = ((result * result).abs() * weight).sum()
        (first,) = library.autograd.grad(loss, x, create_graph=True)
        (second,) = library.autograd.grad((first * first.conj()).abs().sum(), x)
        return result.detach(), first.detach(), second

    seed = torch.rand(12 + 9, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = run(torch, given_.clone().requires_grad_(), seed)
    # What is captured has matrices instead of the host's library.
    ours = core.compile(lambda x, seed: run(core, x, seed)) if as_captured else lambda x, seed: run(core, x, seed)
    actual = ours(to_ours(given_, "cpu").requires_grad_(), to_ours(seed, "cpu"))
    for found, exact in zip(actual, expected, strict=True):
        torch.testing.assert_close(to_torch(found), exact)


def test_parts_of_storages_are_transformed(device: str) -> None:
    given_ = source("fft", 3, 4, 6)
    for part in (lambda x: x[1], lambda x: x[:, 1], lambda x: x.transpose(0, 2), lambda x: x.real[2]):
        expected = torch.fft.fft(part(given_))
        torch.testing.assert_close(to_torch(core.fft.fft(part(to_ours(given_, device)))), expected)


def test_drawn_lengths_dimensions_and_strides(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from webgpu_torch_core.operations.signal import fourier_transforms

    # Kernels on the CPU, too, which runs them where a call is captured.
    monkeypatch.setattr(fourier_transforms, "has_algorithm", lambda input, name: False)

    @settings(max_examples=12 if device == "webgpu" else 40, deadline=None)
    @given(data=strategies.data())
    def run(data: strategies.DataObject) -> None:
        name = data.draw(strategies.sampled_from(ONE))
        dim = data.draw(strategies.integers(0, 2))
        shape = [data.draw(strategies.integers(1, 4)) for _ in range(3)]
        shape[dim] = data.draw(strategies.one_of(strategies.integers(2, 40), strategies.sampled_from(LENGTHS[1:])))
        whole = source(name, *(2 * each if place == 1 else each for place, each in enumerate(shape)))
        order = data.draw(strategies.permutations(range(3)))
        exact = whole.to(torch.complex128 if whole.is_complex() else torch.float64)

        steps = (
            torch.empty(whole.shape)
            .permute(order)
            .contiguous()
            .permute([order.index(each) for each in range(3)])
            .stride()
        )
        laid = torch.empty_strided(whole.shape, steps, dtype=exact.dtype).copy_(exact)[:, ::2]
        ours = core.empty_strided(whole.shape, steps, dtype=getattr(core, str(whole.dtype)[6:]), device=device)
        ours = ours.copy_(to_ours(whole, device))[:, ::2]
        length = data.draw(strategies.sampled_from([None, shape[dim], shape[dim] + 3]))
        if name in ("irfft", "hfft") and length is None and shape[dim] == 1:
            return
        expected = getattr(torch.fft, name)(laid, n=length, dim=dim)
        # A call is remembered from the second on.
        for _ in range(3):
            found = getattr(core.fft, name)(ours, n=length, dim=dim)
            assert_near(found, expected)
            # The stride of a dimension of one element leads nowhere.
            wide = [place for place, size in enumerate(expected.shape) if size > 1]
            assert [found.stride(each) for each in wide] == [expected.stride(each) for each in wide]

    run()
