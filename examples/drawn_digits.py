"""Handwritten digits by rules: strokes of a pen, shaken, turned and blurred, so that nothing needs to be downloaded.

python examples/drawn_digits.py        # prints a few
"""

from __future__ import annotations

from itertools import pairwise
from math import cos, pi, sin
from typing import Any

import webgpu_torch as torch

#: pixels of a side
SIZE = 16


def _arc(x: float, y: float, wide: float, high: float, first: float, last: float) -> list[tuple[float, float]]:
    """Return points of an ellipse around (x, y) from one angle to another, in turns, clockwise from the right."""
    angles = [2 * pi * (first + (last - first) * step / 8) for step in range(9)]
    return [(x + wide * cos(angle), y + high * sin(angle)) for angle in angles]


#: the strokes of each digit, in a square from (-1, -1), top left, to (1, 1)
STROKES: tuple[list[list[tuple[float, float]]], ...] = (
    [_arc(0, 0, 0.5, 0.8, 0, 1)],
    [[(-0.3, -0.5), (0.1, -0.8), (0.1, 0.8)]],
    [[*_arc(0, -0.4, 0.5, 0.4, 0.5, 1.1), (-0.5, 0.8), (0.5, 0.8)]],
    [_arc(-0.05, -0.4, 0.5, 0.4, 0.55, 1.25), _arc(-0.05, 0.4, 0.55, 0.4, 0.75, 1.45)],
    [[(0.2, -0.8), (-0.5, 0.25), (0.6, 0.25)], [(0.25, -0.2), (0.25, 0.8)]],
    [[(0.5, -0.8), (-0.4, -0.8), (-0.45, -0.1), *_arc(-0.05, 0.3, 0.5, 0.45, 0.7, 1.4)]],
    [[(0.35, -0.8), (-0.3, -0.2), *_arc(0, 0.35, 0.5, 0.45, 0.5, 1.5)]],
    [[(-0.5, -0.8), (0.5, -0.8), (-0.1, 0.8)]],
    [_arc(0, -0.4, 0.4, 0.38, 0, 1), _arc(0, 0.4, 0.5, 0.42, 0, 1)],
    [[*_arc(0, -0.35, 0.45, 0.43, 0, 1), (0.35, 0.8)]],
)


def _segments(digit: int) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    return [pair for stroke in STROKES[digit] for pair in pairwise(stroke)]


def _distances(points: Any, ends: Any) -> Any:
    """Return how far pixels (count, pixels, 2) are from the nearest of the lines (count, lines, start or end, 2)."""
    start, way = ends[:, None, :, 0], ends[:, None, :, 1] - ends[:, None, :, 0]
    from_start = points[:, :, None] - start
    along = ((from_start * way).sum(-1) / way.square().sum(-1).clamp_min(1e-6)).clamp(0, 1)
    return (from_start - along[..., None] * way).square().sum(-1).sqrt().amin(-1)


def drawn(labels: Any, generator: Any) -> Any:
    """Return images (count, 1, 16, 16) of these digits from 0 to 1, each of another hand.

    Args:
        labels: int64 tensor (count), digits from 0 to 9, on the CPU.
        generator: a generator of the CPU.
    """
    count, coordinates = len(labels), (torch.arange(SIZE) + 0.5) * (2 / SIZE) - 1
    rows, columns = torch.meshgrid(coordinates, coordinates, indexing="ij")
    pixels = torch.stack([columns, rows], -1).reshape(1, -1, 2)
    turn, lean = ((torch.rand(2, count, generator=generator) - 0.5) * 0.6).unbind()
    size = 0.7 + 0.25 * torch.rand(count, generator=generator)
    shift = (torch.rand(count, 1, 2, generator=generator) - 0.5) * 0.3
    pen = 0.1 + 0.1 * torch.rand(count, 1, generator=generator)
    # What a hand does to its strokes is undone to the pixels.
    moved = (pixels - shift) / size[:, None, None]
    cosine, sine = turn.cos()[:, None], turn.sin()[:, None]
    x, y = moved.unbind(-1)
    x, y = x * cosine + y * sine, y * cosine - x * sine
    hand = torch.stack([x + lean[:, None] * y, y], -1)
    images = torch.zeros(count, SIZE * SIZE)
    for digit in range(10):
        places = (labels == digit).nonzero().flatten()
        if len(places):
            ends = torch.tensor(_segments(digit)).expand(len(places), -1, -1, -1)
            images[places] = torch.sigmoid((pen[places] - _distances(hand[places], ends)) * 14)
    images = images + 0.08 * torch.randn(images.shape, generator=generator)
    return images.clamp(0, 1).reshape(count, 1, SIZE, SIZE)


def digits(count: int, seed: int = 0, of: tuple[int, ...] = tuple(range(10))) -> tuple[Any, Any]:
    """Return images (count, 1, 16, 16) and their labels (count), drawn by chance among the digits ``of``."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor(of)[torch.randint(len(of), (count,), generator=generator)]
    return drawn(labels, generator), labels


if __name__ == "__main__":
    for image, label in zip(*digits(3), strict=True):
        print(int(label))
        for row in image[0].tolist():
            print("".join(" .:#"[min(int(4 * value), 3)] for value in row))
