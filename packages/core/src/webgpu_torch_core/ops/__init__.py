"""Every operation, one family per file; importing this package attaches them to :class:`~webgpu_torch_core.Tensor`."""

from __future__ import annotations

from typing import Any

from ..overridden_members import override_methods
from . import (
    arithmetic,
    asking,
    composite,
    contraction,
    conversion,
    convolution,
    counting,
    creation,
    einsum,
    elementwise,
    fourier,
    gathering,
    host,
    host_memory,
    in_place_functions,
    in_place_methods,
    indexing,
    joining,
    lending,
    linear_algebra,
    losses,
    masked,
    moments,
    neural,
    products,
    random,
    random_counts,
    random_fills,
    ranges,
    rearranging,
    reduction,
    scattering,
    searching,
    signal_windows,
    sorting,
    special,
    spectrograms,
    splitting,
    statistics,
    strided_creation,
    transposed_convolution,
    view_copies,
    views,
)
from .complex import views as complex_views  # pyright: ignore[reportUnusedImport]
from .registry import OPERATIONS, functions

FAMILIES = (
    arithmetic, asking, composite, contraction, conversion, convolution, counting, creation, einsum, elementwise, fourier, gathering, host, host_memory, in_place_methods, indexing, joining, lending, linear_algebra, losses, masked, moments, neural, products, random, random_counts, random_fills, ranges, rearranging, reduction, scattering, searching, signal_windows, sorting, special, spectrograms, splitting, statistics, strided_creation, transposed_convolution, view_copies, views,
)  # fmt: skip

override_methods()


def attach_all(namespace: dict[str, Any]) -> None:
    """Put every function of namespace ``torch`` into a module's globals."""
    namespace.update(functions("torch"))
    namespace.update(in_place_functions.functions())


__all__ = ["FAMILIES", "OPERATIONS", "attach_all"]
