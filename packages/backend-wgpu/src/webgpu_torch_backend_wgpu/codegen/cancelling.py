"""Arithmetic that a driver might cancel: ``x - x`` is 0 for it, whatever x is, where PyTorch has NaN for infinity and NaN.

Drivers treat WGSL's floats as numbers without NaN and infinity: they turn ``x - x`` and ``x + (-x)`` into 0, ``(x + y) - x``
into ``y``, ``x / x`` into 1 and ``x * 0`` into 0. Where a step's operands share a term or a factor, it is spelled with a
test by bits, which they keep.
"""

from __future__ import annotations

from webgpu_torch_core.ir.expression import Expression

#: how far a term or a factor may be inside of an operand
DEPTH = 4
_SUMS = {"add": 1, "subtract": -1}
_PRODUCTS = {"multiply": 1, "divide": -1}
_GUARDED = {"add": "wt_sum", "subtract": "wt_difference", "multiply": "wt_product", "divide": "wt_quotient"}


def guarded(node: Expression, single: bool) -> str | None:
    """Return the function that computes a float32 step with tests by bits, None where the plain step will do.

    ``single``: the kernel's reductions are over single elements, which makes their results equal to elements.
    """
    function = _GUARDED.get(node.step)
    if function is None:
        return None
    if single:
        return function
    left, right = node.arguments
    kinds = _SUMS if node.step in _SUMS else _PRODUCTS
    if kinds is _PRODUCTS and _nothing(left if node.step == "multiply" else right):
        return function
    if node.step == "multiply" and _nothing(right):
        return function
    sign = kinds[node.step]
    found = {(each, power * -sign) for each, power in _parts(right, kinds, 1, DEPTH)}
    return None if found.isdisjoint(_parts(left, kinds, 1, DEPTH)) else function


def _nothing(node: Expression) -> bool:
    return node.step == "constant" and node.payload == 0


def _parts(node: Expression, kinds: dict[str, int], sign: int, depth: int) -> set[tuple[Expression, int]]:
    """Return the terms (factors) of an expression, itself included, each with 1 or, where taken away, -1."""
    found = {(node, sign)}
    if depth and node.step in kinds:
        left, right = node.arguments
        found |= _parts(left, kinds, sign, depth - 1)
        found |= _parts(right, kinds, sign * kinds[node.step], depth - 1)
    elif depth and node.step == "negate":
        # A product's sign does not matter here.
        found |= _parts(node.arguments[0], kinds, -sign if kinds is _SUMS else sign, depth - 1)
    return found
