"""Counts of numbers, and the part of their range in which quantising loses least.

The loss of a range is the integral of squared distances to the nearest of the integers' numbers, with each part's count spread
evenly over it; the range shrinks from that of all numbers, from the end where fewer of them are, until it grows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

#: how finely counts are spread when the range grows
_FINER = 16
#: the share of all numbers that an end gives up at a time
_STEP = 1e-5
#: how many ranges are tried together
_TOGETHER = 32


def _single(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def counted(values: Tensor, kept: tuple[Tensor, float, float], bins: int) -> tuple[Tensor, float, float]:
    """Return counts ``[bins]`` of numbers together with those there were, and the range that they divide."""
    counts, low, high = kept
    bounds = values.aminmax()
    least, greatest = bounds[0].item(), bounds[1].item()
    if low == float("inf") or high == float("-inf"):
        return values.histc(bins, least, greatest), least, greatest
    wider_low, wider_high = min(low, least), max(high, greatest)
    added = values.histc(bins, wider_low, wider_high)
    if (wider_low, wider_high) == (low, high):
        return counts + added, low, high
    if low == high:
        # One number, as often as there were any.
        before = torch.tensor([low]).histc(bins, wider_low, wider_high).to(counts.device) * counts.sum()
    else:
        before = _spread(counts, low, high, wider_low, wider_high)
    return added + before, wider_low, wider_high


def _spread(counts: Tensor, low: float, high: float, wider_low: float, wider_high: float) -> Tensor:
    """Return counts of a range as counts of a wider one."""
    bins, fine = len(counts), len(counts) * _FINER
    share = counts.repeat_interleave(_FINER) / _FINER
    width = _single((_single(high) - _single(low)) / fine)
    middles = torch.linspace(low, high, fine + 1)[:-1] + 0.5 * width
    edges = torch.linspace(wider_low, wider_high, bins + 1)
    places = (torch.bucketize(middles, edges, right=True) - 1).clamp(0, bins - 1)
    return torch.bincount(places.to(counts.device), weights=share, minlength=bins)


def _ranges(cumulative: list[float], total: float) -> Iterator[tuple[int, int]]:
    """Yield ranges of parts, each within the one before: an end moves past the parts that hold its share of all numbers."""
    alpha, beta, start, end = 0.0, 1.0, 0, len(cumulative) - 1
    while alpha < beta:
        next_alpha, next_beta = alpha + _STEP, beta - _STEP
        left, right = start, end
        below, above = _single(next_alpha * total), _single(next_beta * total)
        while left < end and cumulative[left] < below:
            left += 1
        while right > start and cumulative[right] > above:
            right -= 1
        moved = left, right
        if left - start > end - right:
            alpha, moved = next_alpha, (left, end)
        else:
            beta, moved = next_beta, (start, right)
        if moved != (start, end):
            start, end = moved
            yield moved


def best_range(counts: Tensor, low: Tensor, high: Tensor, integers: int) -> tuple[Tensor, Tensor]:
    """Return the bounds ``[]`` of the range in which quantising counted numbers loses least."""
    bins, width = len(counts), (high.item() - low.item()) / len(counts)
    cumulative = counts.cumsum(0).tolist()
    best, chosen, group = float("inf"), (0, bins - 1), []
    moves = _ranges(cumulative, counts.sum().item())
    while True:
        group = [each for _, each in zip(range(_TOGETHER), moves, strict=False)]
        for each, loss in zip(group, _losses(counts, width, group, integers), strict=True):
            if loss > best:
                group = []
                break
            best, chosen = loss, each
        if len(group) < _TOGETHER:
            break
    step = (high - low) / bins
    return low + step * chosen[0], low + step * (chosen[1] + 1)


def _losses(counts: Tensor, width: float, ranges: list[tuple[int, int]], integers: int) -> list[float]:
    """Return the loss of each range."""
    if not ranges or width == 0.0:
        return [0.0] * len(ranges)
    starts = torch.tensor([[start] for start, _ in ranges], device=counts.device)
    wide = [[width * (end - start + 1) / integers] for start, end in ranges]
    target = torch.tensor(wide, dtype=torch.float32, device=counts.device)
    begin = (torch.arange(len(counts), device=counts.device) - starts).to(torch.float32) * width
    finish = begin + width
    first = torch.div(begin, target, rounding_mode="floor").clamp(0, integers - 1)
    last = torch.div(finish, target, rounding_mode="floor").clamp(0, integers - 1)
    density, half = counts / width, target / 2
    lost = _squares(begin - (first + 0.5) * target, half, density)
    lost = lost + (last - first - 1) * _squares(-half, half, density)
    lost = lost + _squares(-half, finish - (last * target + half), density)
    return lost.sum(1).tolist()


def _squares(begin: Tensor, end: Tensor, density: Tensor) -> Tensor:
    """Return the integral of squares between two distances, weighted."""
    return density * ((end * end * end - begin * begin * begin) / 3)
