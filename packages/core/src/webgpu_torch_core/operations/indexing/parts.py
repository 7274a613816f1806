"""Parts of a tensor: copies that share a kernel wherever they start, and gradients, zeros with the part's gradient inside."""

from __future__ import annotations

from typing import NamedTuple

from ...ir import expression as ir
from ...ir.dtypes import dtype, int32
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import Layout, contiguous_strides, number_of_elements
from ...record.grad_mode import recording
from ...tensors.tensor import Tensor
from ..common import kernel_cache, record
from ..movement.joining import element_index, place_inside


class Place(NamedTuple):
    """Where the elements of a padded gradient lie: ``part`` is from ``start`` on along a dimension, and zeros are elsewhere."""

    part: Tensor
    dim: int
    start: int

    @property
    def stop(self) -> int:
        """The first place behind the part."""
        return self.start + self.part._layout.shape[self.dim]


def embed(grad: Tensor, shape: tuple[int, ...], dim: int, start: int, step: int) -> Tensor:
    """Return zeros of a shape with ``grad`` at positions ``start, start + step, …`` of a dimension."""
    before = tuple(start if index == dim else 0 for index in range(len(shape)))
    steps = tuple(step if index == dim else 1 for index in range(len(shape)))
    result = place_inside(grad, before, tuple(shape), 0, steps)
    if step == 1 and not recording.enabled:
        result.__dict__["_place"] = Place(grad, dim, start), result._storage.version
    return result


def place_of_part(gradient: Tensor) -> Place | None:
    """Return what :func:`embed` made a gradient of, None for any other and for one that was written to since."""
    place, version = getattr(gradient, "_place", (None, 0))
    return place if version == gradient._storage.version else None


@kernel_cache
def _consecutive_kernel(source: Layout, numel: int, kind: dtype, count: int) -> Pointwise:
    """Return the kernel that copies ``count`` rows from the one on whose number is a parameter, as far as there are so many."""
    shape = (count, *source.shape[1:])
    last = ir.constant(source.shape[0] - count, int32)
    first = ir.binary("maximum", ir.binary("minimum", ir.parameter(0, int32), last), 0)
    coordinates = [ir.binary("add", first, ir.coordinate(0)), *map(ir.coordinate, range(1, len(shape)))]
    value = ir.load_at(0, element_index(source, coordinates), kind)
    output = Output(kind, number_of_elements(shape), None)
    stores = (Store(0, 0, contiguous_strides(shape), value),)
    return Pointwise((Operand(kind, numel),), (output,), (int32,), "consecutive_rows", shape, stores)


def consecutive_rows(input: Tensor, start: int, count: int) -> Tensor:
    """Return a copy [count, …] of rows of [n, …] that follow each other, without gradient.

    Where they start is a number of the call, not of the kernel.
    """
    kernel = _consecutive_kernel(input._layout, input._storage.value.numel, input.dtype, count)
    return record(kernel, (input,), (start,), ((count, *input._layout.shape[1:]),))
