"""Linear maps of one input whose weights lie side by side in memory, so that one product gives what all of them give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.operations.contraction.encoded_weights import encoded_linear
from webgpu_torch_core.record.changes import structure, watched
from webgpu_torch_nn import Linear, Module
from webgpu_torch_nn import functional as F

from webgpu_torch_models.linear import EncodedLinear

#: what maps of a class hold for each of the elements that they give
_PARTS = {Linear: ("weight", "bias"), EncodedLinear: ("packed", "scales", "offsets", "bias")}


def _parts(maps: Sequence[Module]) -> list[Sequence[Tensor | None]] | None:
    """Return the weights of maps that one product could compute, all of a kind together; None where no product could.

    Biases are None for maps that have none.
    """
    kind = type(maps[0])
    if kind not in _PARTS or any(
        type(each) is not kind or each._forward_hooks or each._forward_pre_hooks for each in maps
    ):
        return None
    if kind is EncodedLinear and (
        any(each.order is not None for each in maps) or len({each.encoding for each in maps}) > 1
    ):
        return None
    result: list[Sequence[Tensor | None]] = []
    for name in _PARTS[kind]:
        found = [getattr(each, name) for each in maps]
        given = [each for each in found if each is not None]
        if given and (
            (len(given) < len(maps) and name != "bias")
            or len({(each.shape[1:], each.dtype, each.device) for each in given}) > 1
        ):
            return None
        result.append(found)
    return result


#: by the first of maps of which some have no bias: what they all add, zeros where they have none
_biases: WeakKeyDictionary[Module, Tensor] = WeakKeyDictionary()


class _Whole(NamedTuple):
    """What neighbouring tensors are rows of: one of them, and the shape, strides and place in its memory of all together."""

    part: Tensor
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    place: int

    def tensor(self) -> Tensor:
        """Return all of it."""
        return self.part.as_strided(self.shape, self.strides, self.place)


def _whole(parts: Sequence[Tensor | None], sizes: Sequence[int], first: Module) -> _Whole | None:
    """Return what tensors are neighbouring rows of, so many each; None where they are not, or all are None."""
    given = [each for each in parts if each is not None]
    whole = given[0] if len(given) == len(parts) else _biases.get(first)
    if not given or whole is None or (whole is not given[0] and whole.shape[0] != sum(sizes)):
        return None
    start, memory = whole.storage_offset(), whole.untyped_storage().data_ptr()
    place = start
    for each, size in zip(parts, sizes, strict=True):
        if each is not None:
            is_here = each.storage_offset() == place and each.untyped_storage().data_ptr() == memory
            if not is_here or not each.is_contiguous():
                return None
        place += size * whole.stride(0)
    return _Whole(given[0], (sum(sizes), *whole.shape[1:]), whole.stride(), start)


def _runs(maps: Sequence[Module]) -> list[tuple[Sequence[Module], list[Sequence[Tensor | None]] | None]]:
    """Return neighbouring maps together that one product could compute, as many as can be, with their parts."""
    found: list[tuple[Sequence[Module], list[Sequence[Tensor | None]] | None]] = []
    start = 0
    while start < len(maps):
        run, parts = maps[start : start + 1], _parts(maps[start : start + 1])
        for stop in range(start + 2, len(maps) + 1) if parts is not None else ():
            longer = _parts(maps[start:stop])
            if longer is None:
                break
            run, parts = maps[start:stop], longer
        found.append((run, parts))
        start += len(run)
    return found


def lay_side_by_side(maps: Sequence[Module]) -> None:
    """Move the weights of neighbouring linear maps into one piece of memory where one product can compute them.

    Parameters stay the same objects with the same values.
    """
    with torch.no_grad():
        for run, kinds in _runs(maps):
            for parts in kinds or ():
                given, sizes = [each for each in parts if each is not None], _sizes(run)
                if not given or _whole(parts, sizes, run[0]) is not None:
                    continue
                lacking = [given[0].new_zeros(size) for size in sizes] if len(given) < len(parts) else parts
                both = zip(parts, lacking, strict=True)
                whole = torch.cat([other if each is None else each.detach() for each, other in both])
                for each, piece in zip(parts, whole.split(sizes), strict=True):
                    if each is not None:
                        each.data = piece
                if lacking is not parts:
                    _biases[run[0]] = whole


def _sizes(maps: Sequence[Module]) -> list[int]:
    """Return how many elements each of the maps gives."""
    return [getattr(each, _PARTS[type(each)][0]).shape[0] for each in maps]


#: what had changed when the maps of a module were last laid side by side
_joined_at: WeakKeyDictionary[Module, int] = WeakKeyDictionary()


def join_maps(model: Module) -> None:
    """Lay the maps side by side that the modules in a model name in ``joined_maps``, if something changed since they were."""
    if _joined_at.get(model) == structure.version:
        return
    for module in model.modules():
        lay_side_by_side(
            [getattr(module, name) for name in getattr(module, "joined_maps", ()) if hasattr(module, name)]
        )
    _joined_at[model] = structure.version


class _Run(NamedTuple):
    """Some of the maps of groups that are neighbours: to which groups what they give belongs, how much of it to each, and their
    weights where these lie together."""

    maps: slice
    groups: list[int]
    sizes: list[int]
    wholes: list[_Whole | None] | None


#: by the first of some maps: what had changed when they were last looked at, which they were in which groups, by identity (what
#: refers to a map would keep it), and their runs
_known: WeakKeyDictionary[Module, tuple[int, list[list[int]], list[_Run]]] = WeakKeyDictionary()


def products(x: Tensor, *groups: Sequence[Module]) -> tuple[Tensor, ...]:
    """Return what linear maps give of ``x``, side by side for each group: one product where weights lie side by side.

    Args:
        x: [..., in].
        groups: of maps.

    Returns:
        for each group, [..., the sum of what its maps give].
    """
    if torch.is_grad_enabled():
        return tuple(_beside([each(x) for each in group]) for group in groups)
    known, identities = _known.get(groups[0][0]), [[*map(id, group)] for group in groups]
    if known is None or known[0] != structure.version or known[1] != identities:
        known = structure.version, identities, _found_runs(groups)
        _known[groups[0][0]] = known
    found: list[list[Tensor]] = [[] for _ in groups]
    flat = [each for group in groups for each in group]
    for part, numbers, sizes, wholes in known[2]:
        maps = flat[part]
        pieces = [each(x) for each in maps] if wholes is None else _product(x, maps[0], wholes).split(sizes, dim=-1)
        for number, piece in zip(numbers, pieces, strict=True):
            found[number].append(piece)
    return tuple(map(_beside, found))


def _beside(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _found_runs(groups: Sequence[Sequence[Module]]) -> list[_Run]:
    """Return the runs of the maps of groups; what moves their weights is noticed from now on."""
    numbers = iter([number for number, group in enumerate(groups) for _ in group])
    found: list[_Run] = []
    for maps, kinds in _runs([each for group in groups for each in group]):
        start = found[-1].maps.stop if found else 0
        own, part = [next(numbers) for _ in maps], slice(start, start + len(maps))
        wholes = None if kinds is None else _wholes(maps, kinds)
        watched.update(id(each) for parts in kinds or () for each in parts if each is not None)
        if wholes is None:
            found.append(_Run(part, own, [], None))
            continue
        sizes = dict.fromkeys(own, 0)
        for number, size in zip(own, _sizes(maps), strict=True):
            sizes[number] += size
        found.append(_Run(part, list(sizes), list(sizes.values()), wholes))
    return found


def _wholes(run: Sequence[Module], kinds: Sequence[Sequence[Tensor | None]]) -> list[_Whole | None] | None:
    """Return the parts of maps, of each kind all together, None for what they lack; None where they lie apart."""
    found = [_whole(parts, _sizes(run), run[0]) for parts in kinds]
    apart = (
        whole is None and any(each is not None for each in parts) for parts, whole in zip(kinds, found, strict=True)
    )
    return None if any(apart) else found


def _product(x: Tensor, first: Module, wholes: Sequence[_Whole | None]) -> Tensor:
    """Return what maps that lie side by side give, the first of which is given."""
    weight, *others = [None if each is None else each.tensor() for each in wholes]
    assert weight is not None
    if not isinstance(first, EncodedLinear):
        return F.linear(x, weight, others[0])
    scales, offsets, bias = others
    assert scales is not None
    result = encoded_linear(x, weight, scales, first.encoding, offsets)
    return result if bias is None else result + bias
