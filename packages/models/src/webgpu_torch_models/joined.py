"""Linear maps of one input whose weights lie side by side in memory, so that one product gives what all of them give."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.operations.contraction.encoded_weights import encoded_linear
from webgpu_torch_core.record.changes import structure
from webgpu_torch_nn import Linear, Module
from webgpu_torch_nn import functional as F

from webgpu_torch_models.linear import EncodedLinear

#: what maps of a class hold for each of the elements that they give
_PARTS = {Linear: ("weight", "bias"), EncodedLinear: ("packed", "scales", "offsets", "bias")}


def _parts(maps: Sequence[Module]) -> list[list[Tensor]] | None:
    """Return the weights of maps that one product could compute, all of a kind together; None where no product could."""
    kind = type(maps[0])
    if kind not in _PARTS or any(
        type(each) is not kind or each._forward_hooks or each._forward_pre_hooks for each in maps
    ):
        return None
    if kind is EncodedLinear and (
        any(each.order is not None for each in maps) or len({each.encoding for each in maps}) > 1
    ):
        return None
    result = []
    for name in _PARTS[kind]:
        found = [getattr(each, name) for each in maps]
        given = [each for each in found if each is not None]
        if given and (len(given) < len(maps) or len({(each.shape[1:], each.dtype, each.device) for each in given}) > 1):
            return None
        result.append(given)
    return result


def _whole(parts: Sequence[Tensor]) -> Tensor | None:
    """Return tensors as the one that they are neighbouring rows of; None where they are not."""
    first = parts[0]
    place, memory = first.storage_offset(), first.untyped_storage().data_ptr()
    for each in parts:
        is_here = each.storage_offset() == place and each.untyped_storage().data_ptr() == memory
        if not is_here or not each.is_contiguous():
            return None
        place += each.numel()
    return first.as_strided((sum(each.shape[0] for each in parts), *first.shape[1:]), first.stride())


def _runs(maps: Sequence[Module]) -> list[tuple[Sequence[Module], list[list[Tensor]] | None]]:
    """Return neighbouring maps together that one product could compute, as many as can be, with their parts."""
    found: list[tuple[Sequence[Module], list[list[Tensor]] | None]] = []
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
        for _, kinds in _runs(maps):
            for parts in kinds or ():
                if parts and _whole(parts) is None:
                    pieces = torch.cat([each.detach() for each in parts]).split([each.shape[0] for each in parts])
                    for each, piece in zip(parts, pieces, strict=True):
                        each.data = piece


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


def products(x: Tensor, *groups: Sequence[Module]) -> tuple[Tensor, ...]:
    """Return what linear maps give of ``x``, side by side for each group: one product where weights lie side by side.

    Args:
        x: [..., in].
        groups: of maps.

    Returns:
        for each group, [..., the sum of what its maps give].
    """
    found: list[list[Tensor]] = [[] for _ in groups]
    numbers = iter([number for number, group in enumerate(groups) for _ in group])
    for run, kinds in _runs([each for group in groups for each in group]):
        own = [next(numbers) for _ in run]
        wholes = None if torch.is_grad_enabled() or kinds is None else _wholes(kinds)
        if wholes is None or kinds is None:
            for number, each in zip(own, run, strict=True):
                found[number].append(each(x))
            continue
        sizes = dict.fromkeys(own, 0)
        for number, each in zip(own, kinds[0], strict=True):
            sizes[number] += each.shape[0]
        for number, piece in zip(sizes, _product(x, run[0], wholes).split([*sizes.values()], dim=-1), strict=True):
            found[number].append(piece)
    return tuple(each[0] if len(each) == 1 else torch.cat(each, dim=-1) for each in found)


def _wholes(kinds: Sequence[Sequence[Tensor]]) -> list[Tensor | None] | None:
    """Return the parts of maps, of each kind all together, None for what they lack; None where they lie apart."""
    found = [_whole(parts) if parts else None for parts in kinds]
    return None if any(parts and whole is None for parts, whole in zip(kinds, found, strict=True)) else found


def _product(x: Tensor, first: Module, wholes: Sequence[Tensor | None]) -> Tensor:
    """Return what maps that lie side by side give, the first of which is given."""
    weight = wholes[0]
    assert weight is not None
    if not isinstance(first, EncodedLinear):
        return F.linear(x, weight, wholes[1])
    _, scales, offsets, bias = wholes
    assert scales is not None
    result = encoded_linear(x, weight, scales, first.encoding, offsets)
    return result if bias is None else result + bias
