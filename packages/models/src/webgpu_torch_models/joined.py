"""Linear maps of one input whose weights lie side by side in memory, so that one product gives what all of them give."""

from __future__ import annotations

from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.operations.contraction.encoded_weights import encoded_linear
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


def lay_side_by_side(maps: Sequence[Module]) -> bool:
    """Move the weights of linear maps into one piece of memory, if one product can compute them; return whether it can.

    Parameters stay the same objects with the same values.
    """
    kinds = _parts(maps) if maps else None
    if kinds is None:
        return False
    with torch.no_grad():
        for parts in kinds:
            if parts and _whole(parts) is None:
                pieces = torch.cat([each.detach() for each in parts]).split([each.shape[0] for each in parts])
                for each, piece in zip(parts, pieces, strict=True):
                    each.data = piece
    return True


def products(x: Tensor, *groups: Sequence[Module]) -> tuple[Tensor, ...]:
    """Return what linear maps give of ``x``, side by side for each group: one product where all weights lie side by side.

    Args:
        x: [..., in].
        groups: of maps.

    Returns:
        for each group, [..., the sum of what its maps give].
    """
    maps = [each for group in groups for each in group]
    kinds = None if torch.is_grad_enabled() else _parts(maps)
    wholes = [] if kinds is None else [_whole(parts) if parts else None for parts in kinds]
    if kinds is None or any(parts and whole is None for parts, whole in zip(kinds, wholes, strict=True)):
        found = [[each(x) for each in group] for group in groups]
        return tuple(each[0] if len(each) == 1 else torch.cat(each, dim=-1) for each in found)
    first, weight = maps[0], wholes[0]
    assert weight is not None
    if isinstance(first, EncodedLinear):
        _, scales, offsets, bias = wholes
        assert scales is not None
        result = encoded_linear(x, weight, scales, first.encoding, offsets)
        result = result if bias is None else result + bias
    else:
        result = F.linear(x, weight, wholes[1])
    rows = iter(kinds[0])
    return result.split([sum(next(rows).shape[0] for _ in group) for group in groups], dim=-1)
