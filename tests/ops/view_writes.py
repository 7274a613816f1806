"""In-place writes of random programs over views: a name, and what draws the arguments."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from view_programs import convert, dimension, numbers

Write = Callable[[Any, Any, str], Any]


def number(draw: random.Random, x: torch.Tensor) -> Any:
    return draw.choice((True, False)) if x.dtype is torch.bool else draw.choice((0, 1, 2, 3, 5))


def operand(draw: random.Random, x: torch.Tensor, kind: torch.dtype | None = None) -> Any:
    """Return a number or a tensor that broadcasts to a tensor's shape, now and then one that does not."""
    if draw.random() < 0.25:
        return number(draw, x)
    shape = list(x.shape)
    shape = shape[draw.randrange(len(shape) + 1) :] if draw.random() < 0.3 else shape
    shape = [1 if draw.random() < 0.2 else each for each in shape]
    if draw.random() < 0.03:
        shape = [2, *shape]
    return numbers(draw, shape, kind or x.dtype)


def filling(draw: random.Random, x: torch.Tensor) -> Write:
    value = number(draw, x) if draw.random() < 0.8 else torch.tensor(number(draw, x))
    return lambda t, y, place: y.fill_(convert(t, value, place))


def zeroing(draw: random.Random, x: torch.Tensor) -> Write:
    return lambda t, y, place: y.zero_()


def arithmetic(name: str) -> Callable[[random.Random, torch.Tensor], Write]:
    def make(draw: random.Random, x: torch.Tensor) -> Write:
        value = operand(draw, x)
        return lambda t, y, place: getattr(y, name)(convert(t, value, place))

    return make


def copying(draw: random.Random, x: torch.Tensor) -> Write:
    kind = x.dtype if draw.random() < 0.7 else draw.choice((torch.int64, torch.float32, torch.bool))
    value = operand(draw, x, kind)
    value = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    return lambda t, y, place: y.copy_(convert(t, value, place))


def masked(draw: random.Random, x: torch.Tensor) -> Write:
    mask = operand(draw, x, torch.bool)
    mask = mask if isinstance(mask, torch.Tensor) else torch.tensor(bool(mask))
    value = number(draw, x)
    return lambda t, y, place: y.masked_fill_(convert(t, mask, place), value)


def indices(draw: random.Random, x: torch.Tensor, dim: int, distinct: bool = True) -> torch.Tensor:
    size = x.shape[dim] if x.ndim and -x.ndim <= dim < x.ndim else 1
    count = draw.randrange(size + 1)
    chosen = draw.sample(range(size), count) if distinct else [draw.randrange(size) for _ in range(count)]
    return torch.tensor(chosen, dtype=torch.int64)


def index_filling(draw: random.Random, x: torch.Tensor) -> Write:
    dim = dimension(draw, x)
    index, value = indices(draw, x, dim), number(draw, x)
    return lambda t, y, place: y.index_fill_(dim, convert(t, index, place), value)


def index_writing(name: str) -> Callable[[random.Random, torch.Tensor], Write]:
    def make(draw: random.Random, x: torch.Tensor) -> Write:
        dim = dimension(draw, x)
        index = indices(draw, x, dim, name != "index_add_")
        shape = list(x.shape)
        if x.ndim and -x.ndim <= dim < x.ndim:
            shape[dim] = len(index) + (draw.random() < 0.03)
        source = numbers(draw, shape, x.dtype)
        return lambda t, y, place: getattr(y, name)(dim, convert(t, index, place), convert(t, source, place))

    return make


def scattering(draw: random.Random, x: torch.Tensor) -> Write:
    dim = dimension(draw, x)
    shape = list(x.shape)
    if not shape or not -len(shape) <= dim < len(shape) or 0 in shape:
        return zeroing(draw, x)
    size = shape[dim]
    # Permutations along the dimension: no place is written twice.
    rows = [torch.tensor(draw.sample(range(size), size)) for _ in range(x.numel() // size)]
    moved = [*(each for axis, each in enumerate(shape) if axis != dim % len(shape)), size]
    index = torch.stack(rows).reshape(moved).movedim(-1, dim).contiguous()
    if draw.random() < 0.5:
        source = numbers(draw, shape, x.dtype)
        return lambda t, y, place: y.scatter_(dim, convert(t, index, place), convert(t, source, place))
    value = number(draw, x)
    return lambda t, y, place: y.scatter_(dim, convert(t, index, place), value)


def clamping(draw: random.Random, x: torch.Tensor) -> Write:
    low, high = draw.choice((None, 1, 2)), draw.choice((3, 4))
    return lambda t, y, place: y.clamp_(low, high)


def augmented(draw: random.Random, x: torch.Tensor) -> Write:
    value = operand(draw, x)
    symbol = draw.choice(("+=", "*=", "-="))

    def step(t: Any, y: Any, place: str) -> None:
        other = convert(t, value, place)
        if symbol == "+=":
            y += other
        elif symbol == "*=":
            y *= other
        else:
            y -= other

    return step


WRITES: tuple[tuple[str, Callable[[random.Random, torch.Tensor], Write]], ...] = (
    ("fill_", filling), ("zero_", zeroing), ("add_", arithmetic("add_")), ("mul_", arithmetic("mul_")),
    ("copy_", copying), ("masked_fill_", masked), ("index_fill_", index_filling),
    ("index_add_", index_writing("index_add_")), ("index_copy_", index_writing("index_copy_")), ("scatter_", scattering),
    ("clamp_", clamping), ("augmented", augmented), ("copy_ again", copying), ("sub_", arithmetic("sub_")),
    ("eq_", arithmetic("eq_")),
)  # fmt: skip
