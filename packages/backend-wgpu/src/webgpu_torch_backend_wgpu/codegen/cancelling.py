"""Arithmetic that a driver might cancel: ``x - x`` is 0 for it, whatever x is, where PyTorch has NaN for infinity and NaN.

Drivers treat WGSL's floats as numbers without NaN and infinity: they turn ``x - x`` and ``x + (-x)`` into 0, ``(x + y) - x``
into ``y``, ``x / x`` into 1 and ``x * 0`` into 0, also where a 0 or 1 comes from integers that they work out. Where a step's
operands share a term or a factor, it is spelled with a test by bits, which they keep.
"""

from __future__ import annotations

from webgpu_torch_core.ir.expression import Expression

#: how far a term or a factor may be inside of an operand
DEPTH = 4
_SUMS = {"add": 1, "subtract": -1}
_PRODUCTS = {"multiply": 1, "divide": -1}
#: what steps of two equal integers give
_OF_EQUALS = {"subtract": 0, "bitwise_xor": 0, "not_equal": 0, "less": 0, "equal": 1, "less_equal": 1}
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
    if kinds is _PRODUCTS and (_nothing(left) or _nothing(right)):
        return function
    sign = kinds[node.step]
    found = {(each, power * -sign) for each, power in _parts(right, kinds, 1, DEPTH)}
    return None if found.isdisjoint(_parts(left, kinds, 1, DEPTH)) else function


def _nothing(node: Expression) -> bool:
    return _decided(node, DEPTH) == 0


def _decided(node: Expression, depth: int) -> object:
    """Return the number that a driver knows an expression to be whatever is loaded, None where it knows none."""
    if node.step == "constant":
        return node.payload
    if not depth or not node.arguments:
        return None
    if node.step in ("cast", "absolute", "negate", "sign"):
        found = _decided(node.arguments[0], depth - 1)
        return found if node.step == "cast" or found == 0 else None
    if node.step == "select":
        holds = _decided(node.arguments[0], depth - 1)
        return None if holds is None else _decided(node.arguments[1 if holds else 2], depth - 1)
    if node.step in ("multiply", "bitwise_and"):
        pairs = zip(node.arguments, node.arguments[::-1])
        opposed = any(one.step == "bitwise_not" and one.arguments[0] is other for one, other in pairs)
        return 0 if opposed or any(_decided(each, depth - 1) == 0 for each in node.arguments) else None
    if node.arguments[0] is not node.arguments[-1] or node.arguments[0].dtype.category >= 2:
        return None
    return _OF_EQUALS.get(node.step)


def _parts(node: Expression, kinds: dict[str, int], sign: int, depth: int) -> set[tuple[Expression, int]]:
    """Return the terms (factors) of an expression, itself included, each with 1 or, where taken away, -1."""
    while node.step == "multiply" and any(_decided(each, DEPTH) == 1 for each in node.arguments):
        node = node.arguments[0 if _decided(node.arguments[1], DEPTH) == 1 else 1]
    found = {(node, sign)}
    if depth and node.step in kinds:
        left, right = node.arguments
        found |= _parts(left, kinds, sign, depth - 1)
        found |= _parts(right, kinds, sign * kinds[node.step], depth - 1)
    elif depth and node.step == "negate":
        # A product's sign does not matter here.
        found |= _parts(node.arguments[0], kinds, -sign if kinds is _SUMS else sign, depth - 1)
    return found
