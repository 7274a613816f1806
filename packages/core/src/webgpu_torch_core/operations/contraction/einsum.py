"""einsum: sums of products over named dimensions, contracted pair by pair as batched matrix products."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.registry import operation
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from .matrix_products import matrix_product

ELLIPSIS = "..."
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@operation("contraction", method=False)
@remembered
def einsum(*args: Any) -> Tensor:
    """Sum products of elements over the dimensions that the equation names but its result does not.

    ``einsum("bij,bjk->bik", x, y)``; ``...`` stands for further dimensions, which broadcast; without ``->`` the result has the
    dimensions named once, in alphabetical order. Dimensions may also be lists of numbers: ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.

    Raises:
        RuntimeError: an equation that does not fit the operands.
    """
    equation, operands = _arguments(args)
    terms, output = _parse(equation, operands)
    operands, terms, sizes = _labelled(operands, terms)
    result, labels = operands[0], terms[0]
    for number in range(1, len(operands)):
        later = set().union(*terms[number + 1 :], output)
        result, labels = _pair(result, labels, operands[number], terms[number], later, sizes)
    summed = [place for place, each in enumerate(labels) if each not in output]
    if summed:
        result = result.sum(summed)
        labels = [each for each in labels if each in output]
    return result.permute([labels.index(each) for each in output]) if output else result


def _arguments(args: tuple[Any, ...]) -> tuple[str, list[Tensor]]:
    if not args:
        raise ValueError("einsum(): must provide at least one operand")
    if isinstance(args[0], str):
        operands = args[1:]
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = operands[0]
        if not operands:
            raise ValueError("einsum(): must provide at least one operand")
        return args[0], list(operands)
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the operands either as equation and operands, or as operands with lists of dimensions"
        )

    def text(numbers: Any) -> str:
        return "".join(ELLIPSIS if each is Ellipsis else _letter(each) for each in numbers)

    terms = ",".join(text(each) for each in args[1::2][: len(args) // 2])
    return (f"{terms}->{text(args[-1])}" if len(args) % 2 else terms), list(args[: len(args) // 2 * 2 : 2])


def _letter(number: int) -> str:
    if not 0 <= number < len(_LETTERS):
        raise ValueError(f"einsum(): subscript {number} is out of range [0, 52)")
    return _LETTERS[number]


def _split_term(term: str) -> list[str]:
    """Return a term's labels, the ellipsis as one."""
    labels: list[str] = []
    rest = term.replace(" ", "")
    while rest:
        if rest.startswith(ELLIPSIS):
            if ELLIPSIS in labels:
                raise RuntimeError("einsum(): found '.' for operand for which an ellipsis was already found")
            labels.append(ELLIPSIS)
            rest = rest[3:]
            continue
        if rest[0] not in _LETTERS:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index 0 in the equation string, subscripts must be in [a-zA-Z]: {rest[0]!r}"
            )
        labels.append(rest[0])
        rest = rest[1:]
    return labels


def _parse(equation: str, operands: list[Tensor]) -> tuple[list[list[str]], list[str]]:
    """Return the labels of each operand and of the result, with the ellipsis spelled as numbered labels."""
    left, arrow, right = equation.partition("->")
    terms = [_split_term(each) for each in left.split(",")]
    if len(terms) != len(operands):
        what = "more" if len(terms) > len(operands) else "fewer"
        raise RuntimeError(f"einsum(): {what} operands were provided than specified in the equation" if what == "fewer" else
                           "einsum(): fewer operands were provided than specified in the equation")  # fmt: skip
    extra = 0
    for number, (term, each) in enumerate(zip(terms, operands, strict=True)):
        named = len(term) - (ELLIPSIS in term)
        if named > each.ndim or (ELLIPSIS not in term and named != each.ndim):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) "
                + (
                    "is more than the number of dimensions"
                    if named > each.ndim
                    else "does not match the number of dimensions"
                )
                + f" ({each.ndim}) for operand {number}"
                + ("" if named > each.ndim else " and no ellipsis was given")
            )
        extra = max(extra, each.ndim - named if ELLIPSIS in term else 0)
    spelled = [f"{ELLIPSIS}{place}" for place in range(extra)]
    expanded = []
    for term, each in zip(terms, operands, strict=True):
        missing = each.ndim - (len(term) - 1)
        expanded.append(_expanded(term, spelled[extra - missing :] if missing else []))
    if arrow:
        output = _split_term(right)
        if len(set(output)) != len(output):
            twice = next(each for each in output if output.count(each) > 1)
            raise RuntimeError(f"einsum(): output subscript {twice} appears more than once in the output")
        for each in output:
            if each != ELLIPSIS and not any(each in term for term in expanded):
                raise RuntimeError(
                    f"einsum(): output subscript {each} does not appear in the equation for any input operand"
                )
        return expanded, _expanded(output, spelled)
    everything = [each for term in terms for each in term if each != ELLIPSIS]
    once = sorted(each for each in set(everything) if everything.count(each) == 1)
    return expanded, spelled + once


def _expanded(term: list[str], spelled: list[str]) -> list[str]:
    if ELLIPSIS not in term:
        return term
    place = term.index(ELLIPSIS)
    return [*term[:place], *spelled, *term[place + 1 :]]


def _labelled(operands: list[Tensor], terms: list[list[str]]) -> tuple[list[Tensor], list[list[str]], dict[str, int]]:
    """Return operands with repeated labels taken as diagonals, and every label's size."""
    sizes: dict[str, int] = {}
    found, labels = [], []
    for number, (each, term) in enumerate(zip(operands, terms, strict=True)):
        term = list(term)
        for label in dict.fromkeys(term):
            while term.count(label) > 1:
                first = term.index(label)
                second = term.index(label, first + 1)
                if each.shape[first] != each.shape[second]:
                    raise RuntimeError(
                        f"einsum(): subscript {label} is repeated for operand {number} but the sizes don't match, "
                        f"{each.shape[second]} != {each.shape[first]}"
                    )
                each = each.diagonal(0, first, second)
                term = [name for place, name in enumerate(term) if place not in (first, second)] + [label]
        for place, label in enumerate(term):
            size = each.shape[place]
            if sizes.get(label, 1) == 1:
                sizes[label] = size
            elif size not in (1, sizes[label]):
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {size} for operand {number} which does not broadcast with previously "
                    f"seen size {sizes[label]}"
                )
        found.append(each)
        labels.append(term)
    return found, labels, sizes


def _pair(
    a: Tensor, a_labels: list[str], b: Tensor, b_labels: list[str], later: set[str], sizes: dict[str, int]
) -> tuple[Tensor, list[str]]:
    """Contract two operands into one: labels of both are batch or summed, the others rows and columns."""
    a, a_labels = _without_lonely(a, a_labels, set(b_labels) | later)
    b, b_labels = _without_lonely(b, b_labels, set(a_labels) | later)
    shared = [each for each in a_labels if each in b_labels]
    # A label of size 1 on one side only is summed on the other side, or broadcast: no product is needed for it.
    for label in shared:
        one, other = a.shape[a_labels.index(label)], b.shape[b_labels.index(label)]
        if one != other and label not in later:
            if one == 1:
                b = b.sum(b_labels.index(label), keepdim=True, dtype=b.dtype)
            else:
                a = a.sum(a_labels.index(label), keepdim=True, dtype=a.dtype)
    batch = [each for each in shared if each in later]
    summed = [each for each in shared if each not in later]
    rows = [each for each in a_labels if each not in shared]
    columns = [each for each in b_labels if each not in shared]
    a = _expand_labels(a, a_labels, batch, sizes).permute([a_labels.index(each) for each in batch + rows + summed])
    b = _expand_labels(b, b_labels, batch, sizes).permute([b_labels.index(each) for each in batch + summed + columns])
    shape = [
        *(sizes[each] for each in batch),
        *a.shape[len(batch) : len(batch) + len(rows)],
        *b.shape[len(batch) + len(summed) :],
    ]
    count = math.prod(sizes[each] for each in batch)
    inner = math.prod(b.shape[len(batch) : len(batch) + len(summed)])
    if not summed:
        left = a.reshape([*a.shape, *(1 for _ in columns)])
        right = b.reshape([*b.shape[: len(batch)], *(1 for _ in rows), *b.shape[len(batch) :]])
        return left * right, batch + rows + columns
    left = a.reshape(count, math.prod(a.shape[len(batch) : len(batch) + len(rows)]), inner)
    right = b.reshape(count, inner, math.prod(b.shape[len(batch) + len(summed) :]))
    # Without sums of more than one product there is no matrix product, which booleans have not.
    one, other = (left, right) if batch else (left[0], right[0])
    product = matrix_product(one, other) if inner == 1 else one @ other
    return product.reshape(shape), batch + rows + columns


def _without_lonely(each: Tensor, labels: list[str], needed: set[str]) -> tuple[Tensor, list[str]]:
    """Sum over the dimensions that nothing else names."""
    lonely = [place for place, label in enumerate(labels) if label not in needed]
    return (each.sum(lonely), [label for label in labels if label in needed]) if lonely else (each, labels)


def _expand_labels(each: Tensor, labels: list[str], batch: list[str], sizes: dict[str, int]) -> Tensor:
    return each.expand([sizes[label] if label in batch else each.shape[place] for place, label in enumerate(labels)])
