"""The domain of a kernel: its groups of dimensions, and splitting, merging and dropping dimensions."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from ..ir.expression import Expression, topological
from ..ir.kernels import Kernel
from ..ir.layouts import Shape, contiguous_strides

_Kernel = TypeVar("_Kernel", bound=Kernel)
#: remembers the steps of scheduling: graphs that differ in a few kernels (one tensor has grown) share the rest of the work
schedule_cache = lru_cache(maxsize=8192)


def groups(kernel: Kernel) -> list[Shape]:
    """Return the sizes of each dimension group."""
    return [getattr(kernel, name) for name in kernel.dimension_groups]


def store_domain(kernel: Kernel) -> Shape:
    """Return the dimensions an element-wise store of the kernel ranges over."""
    names = kernel.dimension_groups[: kernel.stored_groups]
    return tuple(size for name in names for size in getattr(kernel, name))


def split_dimensions(kernel: _Kernel, factors: dict[int, Shape]) -> _Kernel:
    """Return the kernel with dimensions split into row-major factors, e.g. ``{0: (3, 4)}`` for a size of 12."""
    if all(len(parts) == 1 for parts in factors.values()):
        return kernel
    new_groups: list[Shape] = []
    terms: list[tuple[tuple[int, int], ...]] = []
    position = 0
    for group in groups(kernel):
        sizes: list[int] = []
        for size in group:
            parts = factors.get(position, (size,))
            sizes.extend(parts)
            terms.extend(((position, stride),) for stride in contiguous_strides(parts))
            position += 1
        new_groups.append(tuple(sizes))
    return kernel.reindexed(new_groups, tuple(terms))


def accesses(kernel: Kernel) -> list[tuple[Shape, int]]:
    """Return the strides of every load and store (with the number of dimensions they cover)."""
    found = {node.payload[2] for root in kernel.expressions() for node in _leaves(root, "load")}
    found.update(store.strides for store in kernel.all_stores())
    return [(strides, len(strides)) for strides in found]


def _leaves(root: Expression, step: str) -> list[Expression]:
    return [node for node in topological(root) if node.step == step]


def collapse(kernel: _Kernel) -> _Kernel:
    """Return the kernel with size-1 dimensions dropped and adjacent ones merged where every access allows it."""
    if kernel.is_ordered:
        return kernel
    strides_of = accesses(kernel)
    used = {node.payload for root in kernel.expressions() for node in _leaves(root, "coordinate")}
    new_groups: list[Shape] = []
    terms: list[tuple[tuple[int, int], ...]] = []
    position = 0
    for group in groups(kernel):
        runs = _runs(group, position, strides_of, used)
        new_groups.append(tuple(size for size, _ in runs))
        terms.extend(pairs for _, pairs in runs)
        position += len(group)
    if new_groups == groups(kernel) and all(len(each) == position for each in _lengths(kernel)):
        # Nothing is dropped or merged, and every access names all dimensions already.
        return kernel
    return kernel.reindexed(new_groups, tuple(terms))


def _lengths(kernel: Kernel) -> list[Shape]:
    """Return the strides of every load and of every element's store."""
    found = [node.payload[2] for root in kernel.expressions() for node in _leaves(root, "load")]
    return found + [store.strides for store in getattr(kernel, "stores", ())]


def _runs(
    group: Shape, first: int, strides_of: list[tuple[Shape, int]], used: set[int]
) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
    """Return the merged dimensions of one group as (size, terms); a merged run keeps only its innermost term.

    Keeping one term is enough for strided accesses (they are linear along the run); dimensions whose coordinate is used
    are never merged.
    """
    runs: list[tuple[int, tuple[tuple[int, int], ...]]] = []
    for dimension in range(first + len(group) - 1, first - 1, -1):
        size = group[dimension - first]
        if size == 1:
            continue
        if runs and dimension not in used:
            inner_size, ((inner, _),) = runs[-1]
            linear = inner not in used and all(
                dimension >= count or strides[dimension] == strides[inner] * inner_size for strides, count in strides_of
            )
            if linear:
                runs[-1] = (inner_size * size, ((inner, 1),))
                continue
        runs.append((size, ((dimension, 1),)))
    return runs[::-1]
