"""Methods that overwrite a tensor with random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import float32
from ...ir.layouts import number_of_elements
from ...random_streams.distributions import fill_integers, fill_random, require_distribution, warn_of_gaps
from ...record.devices import on_host
from ...tensors.tensor import Tensor
from ..common import one_or_named
from ..creation.factories import from_bytes
from ..in_place.writing import assign, check_writable
from .draws import bernoulli_of, draw, integers, source_generator

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


def _in_memory_order(self: Tensor, make: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """Overwrite with what is drawn element after element, on hosts in the order of memory, as PyTorch goes through tensors."""
    check_writable(self)
    shape, strides = tuple(self._layout.shape), self._layout.strides
    if self._layout.is_contiguous or not on_host(self.device):
        return assign(self, make(shape), fresh=True, made=True)
    order = sorted(range(len(shape)), key=lambda each: -strides[each])
    drawn = make(tuple(shape[each] for each in order))
    return assign(self, drawn.permute(tuple(sorted(range(len(shape)), key=lambda each: order[each]))))


def _fill(self: Tensor, kind: str, generator: Any, first: Any, second: Any) -> Tensor:
    if kind == "normal" and not self._layout.is_contiguous and on_host(self.device):
        # PyTorch transforms blocks of 16 only where they lie next to each other.
        kind = "normal_pairs"
    return _in_memory_order(self, lambda shape: draw(kind, shape, self.dtype, self.device, generator, first, second))


@operation("random", namespace="method")
def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **named: Any) -> Tensor:
    """Overwrite with uniform numbers from ``[from, to)``."""
    return _fill(
        self,
        "uniform",
        generator,
        float(*one_or_named("uniform_", () if "from" in named else (from_,), named, "from")),
        float(to),
    )


@operation("random", namespace="method")
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with normal numbers."""
    return _fill(self, "normal", generator, float(mean), float(std))


@operation("random", namespace="method")
def bernoulli_(self: Tensor, p: Tensor | Number = 0.5, *, generator: Any = None) -> Tensor:
    """Overwrite with ones with probability ``p``, else zeros."""
    if isinstance(p, Tensor):
        check_writable(self)
        return assign(self, bernoulli_of(p.detach().expand(self._layout.shape), self.dtype, generator))
    return _fill(self, "bernoulli", generator, float(p), 0.0)


@operation("random", namespace="method")
def exponential_(self: Tensor, lambd: Number = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with exponential numbers of rate ``lambd``."""
    return _fill(self, "exponential", generator, float(lambd), 0.0)


def _fill_shaped(self: Tensor, kind: str, generator: Any, compute: Any, first: float, second: float) -> Tensor:
    """Overwrite with draws that hosts make like PyTorch, other devices from uniform numbers."""
    if on_host(self.device):
        return _fill(self, kind, generator, float(first), float(second))
    require_distribution(kind, self.dtype, first, second)
    return _in_memory_order(
        self,
        lambda shape: compute(draw("uniform", shape, float32, self.device, generator, 0.0, 1.0)).to(self.dtype),
    )


@operation("random", namespace="method")
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with ``median + sigma * tan(pi * (u - 1/2))``, u uniform."""
    return _fill_shaped(
        self, "cauchy", generator, lambda u: median + sigma * ((u - 0.5) * math.pi).tan(), median, sigma
    )


@operation("random", namespace="method")
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Overwrite with how many trials of success ``p`` it takes to succeed.

    Raises:
        RuntimeError: ``p`` outside of (0, 1).
    """
    return _fill_shaped(self, "geometric", generator, lambda u: ((1 - u).log() / math.log1p(-p)).ceil(), p, 0.0)


@operation("random", namespace="method")
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Overwrite with ``exp`` of normal numbers.

    Raises:
        RuntimeError: a standard deviation that is not positive.
    """
    if on_host(self.device):
        return _fill(self, "log_normal", generator, float(mean), float(std))
    require_distribution("log_normal", self.dtype, mean, std)
    return assign(self, _drawn_like(self, generator, mean, std).exp(), fresh=True)


def _drawn_like(self: Tensor, generator: Any, mean: float, std: float) -> Tensor:
    check_writable(self)
    return draw("normal", tuple(self._layout.shape), self.dtype, self.device, generator, mean, std)


@operation("random", namespace="method")
def random_(self: Tensor, from_: Any = None, to: Any = ..., *, generator: Any = None, **named: Any) -> Tensor:
    """Overwrite with integers: from ``[from, to)``, ``[0, to)``, or all the type can count (from ``from`` on).

    Raises:
        RuntimeError: bounds that the type does not hold, or no numbers between them.
    """
    (low,), high = one_or_named("random_", () if "from" in named else (from_,), named, "from"), to
    if low is not None and high is ... and "from" not in named:
        low, high = 0, low
    high = None if high is ... else high
    place = self.device
    source = source_generator(generator, place)
    if low is not None and high is not None:
        require_distribution("integers", self.dtype, int(low), int(high))
        warn_of_gaps(self.dtype, int(low), int(high))

    def make(shape: tuple[int, ...]) -> Tensor:
        if not on_host(place):
            widest = min(int(self.dtype.maximum), 1 << 24 if self.dtype.category == 2 else (1 << 31) - 1)
            return integers(int(low or 0), widest if high is None else int(high), shape, self.dtype, place, generator)
        count = number_of_elements(shape)
        if low is None:
            data = fill_random(source.host_stream(), count, self.dtype)
        else:
            data = fill_integers(source.host_stream(), count, int(low), None if high is None else int(high), self.dtype)
        return from_bytes(data, shape, self.dtype, place)

    return _in_memory_order(self, make)
