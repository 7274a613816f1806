"""Operations that may name any of several equal elements."""

from __future__ import annotations

from typing import Any

from database import torch
from samples import Sample

#: operations whose indices PyTorch leaves open where elements are equal; True: the indices of a row are all different
OPEN = {"sort": True, "argsort": True, "msort": True, "topk": True, "kthvalue": False, "mode": False}


def same_but_for_ties(sample: Sample, found: Any, expected: Any) -> bool:
    """Return whether values are the same and indices lead to the same values, each element used once."""
    name = sample.entry.name
    if name not in OPEN or _stable(sample):
        return False
    values = sample.arguments[0].detach()
    if isinstance(expected, tuple | list):
        if not torch.equal(found[0], expected[0].detach()):
            return False
        found, expected = found[1], expected[1]
    if not isinstance(found, torch.Tensor) or found.dtype is not expected.dtype or found.shape != expected.shape:
        return False
    for dimension in range(values.ndim):
        if values.ndim == expected.ndim and _leads(values, found, expected, dimension):
            return not OPEN[name] or _all_different(found, dimension)
    reduced = values.ndim == expected.ndim + 1
    return reduced and any(
        _leads(values, found.unsqueeze(dimension), expected.unsqueeze(dimension), dimension)
        for dimension in range(values.ndim)
    )


def same_gradient_but_for_ties(sample: Sample, found: Any, wanted: Any, relative: float, absolute: float) -> bool:
    """Return whether equal elements of a row have the same gradients, whichever of them has which."""
    if sample.entry.name not in OPEN or _stable(sample):
        return False
    values = sample.arguments[0].detach()
    if found.shape != values.shape or found.dtype is not wanted.dtype:
        return False
    return any(
        torch.allclose(*(_by_value(values, each, dimension) for each in (found, wanted)), relative, absolute, True)
        for dimension in range(values.ndim)
    )


def _by_value(values: Any, gradient: Any, dimension: int) -> Any:
    """Return gradients in the order of their elements' values, those of equal ones in their own."""
    own = gradient.argsort(dim=dimension, stable=True)
    order = values.gather(dimension, own).argsort(dim=dimension, stable=True)
    return gradient.gather(dimension, own).gather(dimension, order)


def _stable(sample: Sample) -> bool:
    named = bool(sample.sample.kwargs.get("stable"))
    return named or (sample.entry.name in ("sort", "argsort") and any(each is True for each in sample.arguments[3:]))


def _leads(values: Any, found: Any, expected: Any, dimension: int) -> bool:
    """Return whether both indices lead to the same values along a dimension."""
    size = values.shape[dimension]
    others = [at for at in range(values.ndim) if at != dimension]
    if any(values.shape[at] != found.shape[at] for at in others) or not found.numel():
        return False
    if any(int(each.min()) < 0 or int(each.max()) >= size for each in (found, expected)):
        return False
    return torch.equal(values.gather(dimension, found), values.gather(dimension, expected))


def _all_different(indices: Any, dimension: int) -> bool:
    ordered = indices.sort(dimension).values
    return bool((ordered.diff(dim=dimension) > 0).all())
