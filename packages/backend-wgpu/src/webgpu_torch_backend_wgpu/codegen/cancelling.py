"""Arithmetic that a driver might cancel: ``x - x`` is 0 for it, whatever x is, where PyTorch has NaN for infinity and NaN.

Drivers treat WGSL's floats as numbers without NaN and infinity: they turn ``x - x`` and ``x + (-x)`` into 0, ``(x + y) - x``
into ``y``, ``x / x`` into 1 and ``x * 0`` into 0, also where a 0 or 1 comes from integers that they work out. Where a step's
operands share a term or a factor, it is spelled with a test by bits, which they keep.
"""

from __future__ import annotations

from functools import lru_cache

from webgpu_torch_core.ir.dtypes import bool_, uint8
from webgpu_torch_core.ir.expression import LEAF_STEPS, Expression

#: how far a term or a factor may be inside of an operand
DEPTH = 4
_SUMS = {"add": 1, "subtract": -1}
_PRODUCTS = {"multiply": 1, "divide": -1}
#: steps of integers that a number for an operand may decide whatever the other is: ``x & 0``, ``x % 1``, ``x >> 40``
_DECIDED_BY_NUMBERS = frozenset((
    "multiply", "floor_divide", "truncate_divide", "remainder", "fmod", "bitwise_and", "bitwise_or", "shift_left",
    "shift_right", "minimum", "maximum", "less", "less_equal", "equal", "not_equal", "power", "greatest_common_divisor",
))  # fmt: skip
#: what no driver can know
_READ = frozenset(("load", "load_at", "threefry"))
_GUARDED = {"add": "wt_sum", "subtract": "wt_difference", "multiply": "wt_product", "divide": "wt_quotient"}


@lru_cache(1 << 12)
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
    # A quotient may be moved into the branches of what is divided: 1 / x and 0 / x, which is 0 for a driver.
    if kinds is _PRODUCTS and any(
        _nothing(each, DEPTH, node.step == "divide") or _switched(each) for each in (left, right)
    ):
        return function
    sign = kinds[node.step]
    found = {(each, power * -sign) for each, power in _parts(right, kinds, 1, DEPTH)}
    return None if found.isdisjoint(_parts(left, kinds, 1, DEPTH)) else function


def known_sums(left: Expression, right: Expression) -> bool:
    """Return whether a driver may know the sums of a contraction to be 0."""
    return _nothing(left, DEPTH, False) or _nothing(right, DEPTH, False)


def _nothing(node: Expression, depth: int, chosen: bool) -> bool:
    """Return whether a driver may know a float to be 0 (``chosen``: to be 0 in one branch of a choice) whatever is loaded."""
    if node.step == "constant":
        return node.payload == 0
    if not node.arguments:
        # The only position of a dimension of one element is 0; what is added up may be zeros.
        return node.step == "coordinate" or (chosen and node.step == "reduced")
    if not depth:
        return False
    if node.step == "cast" and node.arguments[0].dtype.category < 2:
        return (chosen and node.arguments[0].dtype is bool_) or _decided(node.arguments[0])
    if node.step == "select":
        condition, *branches = node.arguments
        chooses = chosen or _decided(condition)
        return chooses and any(_nothing(each, depth - 1, chosen) for each in branches)
    # What is multiplied by 0 is tested by bits and no longer known.
    return all(_nothing(each, depth - 1, chosen) for each in node.arguments)


def _switched(node: Expression) -> bool:
    """Return whether a float is a truth value's 0 or 1: a driver may move what it is multiplied by into a choice, as x and 0 * x."""
    return node.step == "cast" and node.arguments[0].dtype is bool_


def _one(node: Expression) -> bool:
    """Return whether a driver may know a float to be 1: a factor that it would leave away."""
    if node.step == "cast" and node.arguments[0].dtype.category < 2:
        return _decided(node.arguments[0])
    return node.step == "constant" and node.payload == 1


def _decided(node: Expression) -> bool:
    """Return whether a driver may work out integers or truth values: operands have something in common, or one is a number."""
    if node.step == "constant":
        return True
    pending, seen = [node], {node}
    while pending:
        each = pending.pop()
        if each.step in _READ or _open_bits(each) or _is_open_test(each):
            continue
        new = [argument for argument in each.arguments if argument not in seen]
        seen.update(new)
        pending += new
        if each.step == "coordinate" or (each.step in _DECIDED_BY_NUMBERS and _has_number(each) and not _varies(each)):
            return True
        met: set[object] = set()
        for argument in each.arguments if each.dtype.category < 2 and len(each.arguments) > 1 else ():
            found = _leaves(argument)
            if not met.isdisjoint(found):
                return True
            met |= found
    return False


def _varies(node: Expression) -> bool:
    """Return whether a step leaves some bits of a word that was read as they are, which no driver can know."""
    word, number = node.arguments[0], node.arguments[-1]
    if word.step not in _READ or number.step != "constant":
        return False
    if node.step == "shift_right":
        return 0 <= number.payload < 8 * word.dtype.itemsize
    return node.step == "bitwise_and" and number.payload != 0 and word.dtype is not bool_


def _open_bits(node: Expression) -> int:
    """Return bits of a non-negative integer that any byte that was read may set, all others being 0; 0 where none are known."""
    if node.step == "load" and node.dtype is uint8:
        return 0xFF
    if node.step == "cast" and node.dtype.category == 1:
        return _open_bits(node.arguments[0])
    if node.step == "select":
        _, one, other = node.arguments
        return _open_bits(one) if _open_bits(one) == _open_bits(other) else 0
    if node.step in ("shift_right", "bitwise_and") and node.arguments[1].step == "constant":
        bits, amount = _open_bits(node.arguments[0]), int(node.arguments[1].payload)
        return bits & amount if node.step == "bitwise_and" else bits >> min(max(amount, 0), 8)
    return 0


def _is_open_test(node: Expression) -> bool:
    """Return whether a byte that was read decides a comparison with a number, or an integer that differs by one from it."""
    if len(node.arguments) != 2 or node.arguments[1].step != "constant":
        return node.step == "select" and all(_open_bits(each) or _is_open_test(each) for each in node.arguments[1:])
    bits, amount = _open_bits(node.arguments[0]), node.arguments[1].payload
    if node.step == "less":
        return 0 < amount <= bits
    return bool(bits) and node.step in ("add", "subtract")


def _has_number(node: Expression) -> bool:
    return any(each.step == "constant" and each.dtype.category < 2 for each in node.arguments)


def _leaves(node: Expression) -> set[object]:
    """Return what an expression reads: of a buffer any two elements may be one."""
    pending, seen = [node], {node}
    found: set[object] = set()
    while pending:
        each = pending.pop()
        if each.step in _READ:
            found.add(each.payload[0] if each.step == "load" else each if each.step == "threefry" else each.payload)
            continue
        if each.step in LEAF_STEPS and each.step != "constant":
            found.add(each)
        new = [argument for argument in each.arguments if argument not in seen]
        seen.update(new)
        pending += new
    return found


def _parts(node: Expression, kinds: dict[str, int], sign: int, depth: int) -> set[tuple[Expression, int]]:
    """Return the terms (factors) of an expression, itself included, each with 1 or, where taken away, -1."""
    while node.step == "multiply" and any(_one(each) for each in node.arguments):
        node = node.arguments[0 if _one(node.arguments[1]) else 1]
    found = {(node, sign)}
    if depth and node.step in kinds:
        left, right = node.arguments
        found |= _parts(left, kinds, sign, depth - 1)
        found |= _parts(right, kinds, sign * kinds[node.step], depth - 1)
    elif depth and node.step == "negate":
        # A product's sign does not matter here.
        found |= _parts(node.arguments[0], kinds, -sign if kinds is _SUMS else sign, depth - 1)
    return found
