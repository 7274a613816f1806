"""Re-indexing: rewriting a kernel's expressions and stores when its domain is split, permuted or replaced.

A change of domain is described by ``terms``: for every new dimension the (old dimension, multiplier) pairs it
contributes to, so that ``old[i] = constants[i] + sum(multiplier * new[j])``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..ir.dtypes import bool_, int32
from ..ir.expression import Expression, constant, coordinate, make, rewrite, topological
from ..ir.kernels import Contraction, Kernel, Pointwise, RowProgram, Scan, Scatter, Sort, Store
from ..ir.layouts import Shape, contiguous_strides

#: remembers the steps of scheduling: graphs that differ in a few kernels (one tensor has grown) share the rest of the work
schedule_cache = lru_cache(maxsize=8192)

Terms = tuple[tuple[tuple[int, int], ...], ...]


def reindex_strides(strides: Shape, terms: Terms) -> Shape:
    """Return strides over the new dimensions."""
    count = len(strides)
    return tuple(sum(strides[old] * multiplier for old, multiplier in pairs if old < count) for pairs in terms)


def reindex(expression: Expression, terms: Terms, constants: Sequence[int] | None = None) -> Expression:
    """Return an expression over the new domain."""

    def replace(node: Expression, arguments: tuple[Expression, ...]) -> Expression | None:
        if node.step == "load":
            slot, offset, strides = node.payload
            if constants is not None:
                offset += sum(stride * shift for stride, shift in zip(strides, constants, strict=False))
            return make("load", (), (slot, offset, reindex_strides(strides, terms)), node.dtype)
        if node.step == "coordinate":
            return _coordinate(node.payload, terms, constants[node.payload] if constants is not None else 0)
        if node.step == "equal" and all(each.step == "constant" for each in arguments):
            # A coordinate that became a constant decides a selection: one part of interleaved numbers.
            return constant(arguments[0].payload == arguments[1].payload, bool_)
        if node.step == "select" and arguments[0].step == "constant":
            return arguments[1] if arguments[0].payload else arguments[2]
        return None

    return rewrite(expression, replace)


def _coordinate(old: int, terms: Terms, shift: int) -> Expression:
    result: Expression | None = None
    for new, pairs in enumerate(terms):
        for dimension, multiplier in pairs:
            if dimension == old:
                part: Any = coordinate(new)
                if multiplier != 1:
                    part = part * multiplier
                result = part if result is None else result + part
    if result is None:
        return constant(shift, int32)
    return result + shift if shift else result


# The dimension groups of each form, in coordinate order; stores cover the leading groups given second.
GROUPS: dict[type[Kernel], tuple[tuple[str, ...], int]] = {
    Pointwise: (("shape",), 1),
    RowProgram: (("outer", "inner"), 2),
    Contraction: (("batch", "m", "n", "k"), 3),
    Scan: (("shape",), 1),
    Sort: (("shape",), 1),
    Scatter: (("lanes", "entries"), 2),
}


def groups(kernel: Kernel) -> list[Shape]:
    """Return the sizes of each dimension group."""
    return [getattr(kernel, name) for name in GROUPS[type(kernel)][0]]


def store_domain(kernel: Kernel) -> Shape:
    """Return the dimensions an element-wise store of the kernel ranges over."""
    names, count = GROUPS[type(kernel)]
    return tuple(size for name in names[:count] for size in getattr(kernel, name))


def _reindex_stores(stores: tuple[Store, ...], terms: Terms) -> tuple[Store, ...]:
    return tuple(
        Store(each.output, each.offset, reindex_strides(each.strides, terms), reindex(each.value, terms))
        for each in stores
    )


def redomain(kernel: Any, new_groups: Sequence[Shape], terms: Terms) -> Any:
    """Return the kernel over a new domain with the same points (``new_groups`` sizes per dimension group)."""
    names, _ = GROUPS[type(kernel)]
    changes: dict[str, Any] = dict(zip(names, map(tuple, new_groups), strict=True))
    if isinstance(kernel, Pointwise):
        changes["stores"] = _reindex_stores(kernel.stores, terms)
    elif isinstance(kernel, RowProgram):
        outer = len(new_groups[0])
        changes["row_stores"] = _reindex_stores(kernel.row_stores, terms[:outer])
        changes["stores"] = _reindex_stores(kernel.stores, terms)
        changes["reductions"] = tuple(each.replace(value=reindex(each.value, terms)) for each in kernel.reductions)
    elif isinstance(kernel, Contraction):
        visible = len(terms) - len(new_groups[3])
        changes["stores"] = _reindex_stores(kernel.stores, terms[:visible])
        changes["left"] = reindex(kernel.left, terms)
        changes["right"] = reindex(kernel.right, terms)
    elif isinstance(kernel, Scatter):
        changes["index"] = reindex(kernel.index, terms)
        changes["value"] = reindex(kernel.value, terms)
    elif isinstance(kernel, Scan):
        changes["value"] = reindex(kernel.value, terms)
        changes["strides"] = reindex_strides(kernel.strides, terms)
    else:
        changes["value"] = reindex(kernel.value, terms)
    return kernel.replace(**changes)


def split_dimensions(kernel: Any, factors: dict[int, Shape]) -> Any:
    """Return the kernel with dimensions split into row-major factors, e.g. ``{0: (3, 4)}`` for a size of 12."""
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
    return redomain(kernel, new_groups, tuple(terms))


def accesses(kernel: Any) -> list[tuple[Shape, int]]:
    """Return the strides of every load and store (with the number of dimensions they cover)."""
    found = {node.payload[2] for root in kernel.expressions() for node in _leaves(root, "load")}
    if isinstance(kernel, Scan):
        found.add(kernel.strides)
    found.update(store.strides for store in all_stores(kernel))
    return [(strides, len(strides)) for strides in found]


def all_stores(kernel: Any) -> tuple[Store, ...]:
    """Return row stores and stores of a form that has them."""
    return getattr(kernel, "row_stores", ()) + getattr(kernel, "stores", ())


def _leaves(root: Expression, step: str) -> list[Expression]:
    return [node for node in topological(root) if node.step == step]


def collapse(kernel: Any) -> Any:
    """Return the kernel with size-1 dimensions dropped and adjacent ones merged where every access allows it."""
    if isinstance(kernel, Sort | Scan):
        # Their last dimension has a meaning of its own and their outputs a fixed layout.
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
    return redomain(kernel, new_groups, tuple(terms))


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
