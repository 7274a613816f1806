"""Short-time Fourier transforms: ``torch.stft`` and its least-squares inverse ``torch.istft``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.registry import operation
from ...notices import warn_once
from ...record.devices import on_host
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import kind_title
from ..complex.views import view_as_real
from ..creation.ranges import arange
from ..movement.joining import place_inside
from ..neural.composites import pad
from .fourier import fft, ifft, irfft, rfft

#: more pieces than this are added by one scatter instead of one by one
FEW_PIECES = 16
#: elements from which on a host computes what is padded before it reads it in frames, which overlap
MANY = 1 << 14
#: the smallest sum of squared windows that the inverse divides by
SMALLEST_ENVELOPE = 1e-11


Description = Callable[[], str]


def _described(name: str, input: Tensor, **values: Any) -> str:
    """Return the call as the errors of PyTorch show it."""
    shown = ", ".join(
        f"{key}={f'{kind_title(each)}{{{list(each.shape)}}}' if isinstance(each, Tensor) else int(each) if isinstance(each, bool) else each}"
        for key, each in values.items()
    )
    return f"{name}({kind_title(input)}{list(input.shape)}, {shown})"


def _check(condition: bool, describe: Description, message: str) -> None:
    if not condition:
        raise RuntimeError(f"{describe()} : {message}")


def _centered(window: Tensor | None, win_length: int, n_fft: int, input: Tensor) -> Tensor | None:
    """Return the window in the middle of n_fft places; None where it would be ones."""
    if win_length == n_fft:
        return window
    if window is None:
        window = input.new_ones((win_length,), dtype=input.dtype.to_real())
    return place_inside(window, ((n_fft - win_length) // 2,), (n_fft,))


@operation("composite")
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The Fourier transforms of overlapping frames: [B?, L] to [B?, frequencies, frames].

    Raises:
        RuntimeError: sizes that do not fit, or ``return_complex`` is not given for a real input.
    """
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    source = input
    if center:
        source = _padded(input, n_fft // 2, pad_mode)
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    describe = lambda: _described(  # noqa: E731
        "stft", source, n_fft=n_fft, hop_length=hop, win_length=length, window=window, normalized=normalized,
        onesided=onesided, return_complex=return_complex, align_to_window=align_to_window,
    )  # fmt: skip
    is_complex = source.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that "
                "return_complex=True in a future PyTorch release."
            )
        return_complex = True
    _check_frames(source, n_fft, hop, length, window, describe)
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied,which is known to cause spectral leakage. Other windows "
            "such as torch.hann_window or torch.hamming_window are recommended to reduce spectral leakage.To suppress this warning and "
            "use a rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`."
        )
    frames = _frames(source.unsqueeze(0) if source.ndim == 1 else source, n_fft, hop, length, bool(align_to_window))
    shape = _centered(window, length, n_fft, source)
    if shape is not None:
        frames = frames * shape
    norm = "ortho" if normalized else None
    one_sided = not is_complex if onesided is None else onesided
    spectrum = (rfft(frames, norm=norm) if one_sided else fft(frames, norm=norm)).transpose(1, 2)
    result = spectrum.squeeze(0) if source.ndim == 1 else spectrum
    return result if return_complex else view_as_real(result)


def _padded(input: Tensor, amount: int, mode: str) -> Tensor:
    extra = 3 - input.ndim
    wide = input.reshape((1,) * extra + tuple(input._layout.shape)) if extra > 0 else input
    result = pad(wide, [amount, amount], mode)
    if result.numel() >= MANY and on_host(result.device):
        result._storage.value.realize()
    return result.reshape(tuple(result._layout.shape[max(extra, 0) :]))


def _check_frames(
    source: Tensor, n_fft: int, hop: int, length: int, window: Tensor | None, describe: Description
) -> None:
    if source.dtype.category < 2:
        raise RuntimeError(f"{describe()} : expected a tensor of floating point or complex values")
    _check(source.ndim in (1, 2), describe, "expected a 1D or 2D tensor")
    size = source.shape[-1]
    _check(0 < n_fft <= size, describe, f"expected 0 < n_fft < {size}, but got n_fft={n_fft}")
    _check(hop > 0, describe, f"expected hop_length > 0, but got hop_length={hop}")
    _check(0 < length <= n_fft, describe, f"expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and (window.ndim != 1 or window.shape[0] != length):
        _check(
            False, describe,
            f"expected a 1D window tensor of size equal to win_length={length}, but got window with size {list(window.shape)}",
        )  # fmt: skip


def _frames(source: Tensor, n_fft: int, hop: int, length: int, align: bool) -> Tensor:
    """Return frames [B, T, n_fft]; ``align`` starts with the window rather than with the frame around it."""
    if align:
        before = (n_fft - length) // 2
        source = place_inside(source, (0, before), (source.shape[0], source.shape[1] + n_fft - length))
    return source.unfold(-1, n_fft, hop)


def overlap_add(frames: Tensor, hop: int) -> Tensor:
    """Return the sum [B, L] of frames [B, T, n] laid ``hop`` apart, L = n + hop * (T - 1)."""
    batch, count, size = frames._layout.shape
    total = size + hop * (count - 1)
    pieces = -(-size // hop)
    if pieces > FEW_PIECES:
        starts = arange(0, count * hop, hop, device=frames.device)
        positions = (starts.unsqueeze(1) + arange(size, device=frames.device)).reshape(-1)
        whole = frames.new_zeros((batch, total))
        return whole.index_add(1, positions, frames.reshape(batch, count * size))
    whole = pieces * hop
    frames = frames if whole == size else place_inside(frames, (0, 0, 0), (batch, count, whole))
    length = hop * (count + pieces - 1)
    result: Any = None
    for piece in range(pieces):
        line = frames.narrow(-1, piece * hop, hop).reshape(batch, count * hop)
        placed = place_inside(line, (0, piece * hop), (batch, length))
        result = placed if result is None else result + placed
    return result.narrow(-1, 0, total)


@operation("composite")
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal [B?, L] whose transformed frames are closest to [B?, frequencies, frames] (Griffin and Lim, 1984).

    Raises:
        RuntimeError: the input is real, sizes do not fit, or somewhere all windows are zero.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    describe = lambda: _described(  # noqa: E731
        "istft", input, n_fft=n_fft, hop_length=hop, win_length=width, window=window, center=center,
        normalized=normalized, onesided=onesided, length=length, return_complex=return_complex,
    )  # fmt: skip
    one_sided = _check_spectrum(input, n_fft, hop, width, window, onesided, return_complex, describe)
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied.Please provide the same window used by stft to make the "
            "inversion lossless.To suppress this warning and use a rectangular window, explicitly set `window=torch.ones(n_fft, "
            "device=<device>)`."
        )
    columns = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(1, 2)
    frames = _inverse_frames(columns, n_fft, "ortho" if normalized else None, one_sided, return_complex)
    shape = _centered(window, width, n_fft, input)
    total = n_fft + hop * (frames.shape[1] - 1)
    first = n_fft // 2 if center else 0
    last = first + length if length is not None else total - n_fft // 2 if center else total
    result = _divided(frames, shape, hop, first, min(last, total), describe)
    if length is not None and last > total:
        warn_once(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please check "
            "your center and hop_length settings."
        )
        result = place_inside(result, (0, 0), (result.shape[0], length))
    return result.squeeze(0) if input.ndim == 2 else result


def _check_spectrum(
    input: Tensor,
    n_fft: int,
    hop: int,
    width: int,
    window: Tensor | None,
    onesided: bool | None,
    return_complex: bool,
    describe: Description,
) -> bool:
    """Return whether only half of the frequencies are given."""
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    _check(input.numel() > 0, describe, "input tensor cannot be empty.")
    _check(input.ndim in (2, 3), describe, f"expected a tensor with 2 or 3 dimensions, but got {input.ndim}")
    rows = input.shape[-2]
    one_sided = rows != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if one_sided else n_fft
    formula = "n_fft / 2 + 1 when onesided=True" if one_sided else "n_fft when onesided=False"
    _check(
        rows == expected, describe,
        f"expected the frequency dimension (3rd to the last) of the input tensor to match {formula}, but got {rows}",
    )  # fmt: skip
    _check(0 < hop <= width, describe, "expected 0 < hop_length <= win_length")
    _check(0 < width <= n_fft, describe, "expected 0 < win_length <= n_fft")
    _check(
        window is None or tuple(window._layout.shape) == (width,), describe,
        "Invalid window shape. window has to be 1D and length of `win_length`",
    )  # fmt: skip
    complex_window = window is not None and window.dtype.is_complex
    if return_complex and one_sided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and complex_window:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    return one_sided


def _inverse_frames(columns: Tensor, n_fft: int, norm: str | None, one_sided: bool, return_complex: bool) -> Tensor:
    if return_complex:
        return ifft(columns, norm=norm)
    # A real signal is told by half of the frequencies, whatever the others are.
    half = columns if one_sided else columns.narrow(-1, 0, n_fft // 2 + 1)
    return irfft(half, n_fft, norm=norm)


def _divided(frames: Tensor, window: Tensor | None, hop: int, first: int, last: int, describe: Description) -> Tensor:
    """Return overlapping windowed frames divided by the sum of the squared windows."""
    kind = frames.dtype.to_real()
    shape = frames.new_ones((frames.shape[-1],), dtype=kind) if window is None else window
    signal = overlap_add(frames if window is None else frames * window, hop)
    squares = (shape * shape).expand((1, frames.shape[1], frames.shape[2]))
    envelope = overlap_add(squares, hop).narrow(-1, first, max(last - first, 0))
    if window is not None and envelope.numel() and not envelope.is_meta:
        smallest = e.abs(envelope.detach()).amin().item()
        if not smallest > SMALLEST_ENVELOPE:
            raise RuntimeError(
                f"{describe()} window overlap add min: {smallest}; every sample needs a window that is not 0"
            )
    return signal.narrow(-1, first, max(last - first, 0)) / envelope
