"""einsum: sums of products over named dimensions, contracted pair by pair as batched matrix products."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ...dispatch.registry import operation
from ...replay.recipes import remembered
from ...tensors.tensor import Tensor
from ..common import no_view
from .matrix_products import matrix_product

ELLIPSIS = "..."
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@operation("contraction", method=False)
def einsum(*args: Any) -> Tensor:
    """Sum products of elements over the dimensions that the equation names but its result does not.

    ``einsum("bij,bjk->bik", x, y)``; ``...`` stands for further dimensions, which broadcast; without ``->`` the result has the
    dimensions named once, in alphabetical order. Dimensions may also be lists of numbers: ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.

    Raises:
        RuntimeError: an equation that does not fit the operands.
    """
    equation, operands = _arguments(args)
    found = _contracted(equation, *operands)
    count = _summed(equation, tuple([each.ndim for each in operands])) if len(operands) > 1 else 0
    return found.view(found._layout.shape[: found.ndim - count]) if count else found


@lru_cache(maxsize=4096)
def _summed(equation: str, ranks: tuple[int, ...]) -> int:
    """Return over how many dimensions an equation of operands with so many dimensions sums."""
    terms, output = _parse(equation, ranks)
    return len({label for term in terms for label in term}) - len(output)


@remembered
def _contracted(equation: str, *operands: Tensor) -> Tensor:
    """Return the result of an equation; of several operands with a dimension of one element for each that it sums over.

    It is no view: what takes these dimensions away again makes it one, as in PyTorch, and nobody else sees what that is a view of.
    """
    terms, output = _parse(equation, [each.ndim for each in operands])
    spelled, terms, sizes = _labelled([*operands], terms)
    labels = [*output, *sorted(set(sizes) - set(output))]
    if len(operands) == 1:
        return _single(_spread(spelled[0], terms[0], labels), len(output), len(labels))
    waiting = [_spread(each, term, labels) for each, term in zip(spelled, terms, strict=True)]
    counts = [builtins.sum(each.shape[place] != 1 for each in waiting) for place in range(len(labels))]
    result = waiting[0]
    for each in waiting[1:]:
        result = _pair(result, each, len(output), counts)
    return no_view(result) if len(labels) > len(output) else result


def _single(operand: Tensor, kept: int, count: int) -> Tensor:
    return operand.sum(list(range(kept, count))) if count > kept else operand


def _spread(operand: Tensor, term: list[str], labels: list[str]) -> Tensor:
    """Return a view of an operand with a dimension for every label, of one element where it has none."""
    # Missing dimensions come last before the order is made: a dimension of one element has the stride that PyTorch's has.
    order = [*term, *(each for each in labels if each not in term)]
    for _ in order[len(term) :]:
        operand = operand.unsqueeze(-1)
    return operand.permute([order.index(each) for each in labels])


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


def _split_term(equation: str, start: int, end: int, operand: int | None, named: Sequence[str] = ()) -> list[str]:
    """Return the labels of a part of an equation, the ellipsis as one; ``operand`` is None for the result's, all of them ``named``."""
    labels: list[str] = []
    what, twice, alone = (
        f"operand {operand}",
        "for which an ellipsis was already found",
        "that is not part of any ellipsis",
    )
    if operand is None:
        what, twice, alone = "output", "but an ellipsis (...) was already found", f"{alone} (...)"
    place = start
    while place < end:
        if equation[place] == ".":
            if ELLIPSIS in labels or not equation.startswith(ELLIPSIS, place, end):
                raise RuntimeError(f"einsum(): found '.' for {what} {twice if ELLIPSIS in labels else alone}")
            labels.append(ELLIPSIS)
            place += 2
        elif equation[place] in _LETTERS:
            if operand is None:
                _check_output(equation[place], labels, named)
            labels.append(equation[place])
        elif equation[place] != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {place} in the equation string, subscripts must be in [a-zA-Z]"
            )
        place += 1
    return labels


def _check_output(label: str, labels: list[str], named: Sequence[str]) -> None:
    if label in labels:
        raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
    if label not in named:
        raise RuntimeError(f"einsum(): output subscript {label} does not appear in the equation for any input operand")


def _split_operands(equation: str, end: int, count: int) -> list[list[str]]:
    """Return the labels of each of ``count`` operands that an equation names before ``end``."""
    terms, start = [], 0
    for each in equation[:end].split(","):
        if len(terms) == count:
            raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
        terms.append(_split_term(equation, start, start + len(each), len(terms)))
        start += len(each) + 1
    if len(terms) < count:
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    return terms


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """Return the labels of each operand, of which the numbers of dimensions are given, and of the result, with the ellipsis spelled as
    numbered labels."""
    left, arrow, _ = equation.partition("->")
    terms = _split_operands(equation, len(left), len(ranks))
    extra = 0
    for number, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        named = len(term) - (ELLIPSIS in term)
        if named > rank or (ELLIPSIS not in term and named != rank):
            fault, rest = "does not match", " and no ellipsis was given"
            if ELLIPSIS in term:
                fault, rest = "is more than", ""
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) {fault} the number of dimensions ({rank}) "
                f"for operand {number}{rest}"
            )
        extra = max(extra, rank - named if ELLIPSIS in term else 0)
    spelled = [f"{ELLIPSIS}{place}" for place in range(extra)]
    expanded = []
    for term, rank in zip(terms, ranks, strict=True):
        missing = rank - (len(term) - 1)
        expanded.append(_expanded(term, spelled[extra - missing :] if missing else []))
    if arrow:
        everything = [each for term in terms for each in term]
        output = _split_term(equation, len(left) + 2, len(equation), None, everything)
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


def _pair(a: Tensor, b: Tensor, kept: int, counts: list[int]) -> Tensor:
    """Contract two operands with a dimension for every label; ``counts``: how many of those left have more than one element of each.

    Which dimensions are rows and which columns, and thereby the result's strides, is decided as in PyTorch.
    """
    summed: list[int] = []
    for place in range(kept, len(counts)):
        if a.shape[place] != 1 and b.shape[place] != 1:
            counts[place] -= 1
            if counts[place] == 1:
                summed.append(place)
                counts[place] = 0
        elif counts[place] == 1 and (a.shape[place] != 1 or b.shape[place] != 1):
            counts[place] = 0
            if a.shape[place] != 1:
                a = a.sum(place, True, dtype=a.dtype)
            else:
                b = b.sum(place, True, dtype=b.dtype)
    if not summed:
        return a * b
    return _product(a, b, summed)


def _product(a: Tensor, b: Tensor, summed: list[int]) -> Tensor:
    """Return the batched matrix product over some dimensions, of which one element is left."""
    others = [place for place in range(a.ndim) if place not in summed]
    batch = [each for each in others if a.shape[each] != 1 and b.shape[each] != 1]
    rows = [each for each in others if a.shape[each] != 1 and each not in batch]
    columns = [each for each in others if each not in batch and each not in rows]
    if rows and columns and columns[-1] < rows[0]:
        a, b, rows, columns = b, a, columns, rows

    def size(of: Tensor, places: list[int]) -> int:
        return math.prod(of.shape[each] for each in places)

    inner = size(a, summed)
    left = a.permute(batch + rows + summed + columns).reshape(size(a, batch), size(a, rows), inner)
    right = b.permute(batch + summed + columns + rows).reshape(size(a, batch), inner, size(b, columns))
    # Without sums of more than one product there is no matrix product, which booleans have not.
    one, other = (left, right) if batch else (left[0], right[0])
    product = matrix_product(one, other) if inner == 1 else one @ other
    order = batch + rows + summed + columns
    shape = [1 if each in summed else a.shape[each] if b.shape[each] == 1 else b.shape[each] for each in order]
    return product.view(shape).permute([order.index(each) for each in range(a.ndim)])
