"""What an element-wise operation declares beside its formula and promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...ir.dtypes import dtype


class Facts(NamedTuple):
    """What an element-wise operation declares beside its formula and promotion.

    Attributes:
        title: the name of its gradient node where it is not the operation's own, or a function of the operands.
        refuses: a function of the operands and their promoted type that raises where PyTorch does.
        rounds_numbers: it takes a number in the tensors' own 16-bit type, as PyTorch does: float16's 0.1 == 0.1.
        wide_second: beside 16-bit numbers its second operand, if it is a number or has no dimensions, is not rounded to
            their type, as PyTorch's products and quotients do it; a number in the first place is.
        takes_numbers: PyTorch computes it of two Python numbers, too.
        saves_result: PyTorch computes the gradient from the result (exp, tanh, relu, …), not from the operand.
        whole: it is one of integers and booleans only.
        divides: integers are divided by the second operand: zero there is an error.
        decides: the operand whose order of dimensions counts first for the result's.
        gradients_decided: for the gradient of each operand what counts first for the order of its dimensions: 0 what arrives, as
            for those not listed, else the operand of that number, from 1.
        row_major: the result is row-major, whatever order its operands' dimensions have.
        like_nothing: categories of the promoted type of which a result without elements keeps the first operand's strides:
            PyTorch makes it before it computes.
        numbers_apart: PyTorch computes with a number in a form of its own, and not as with a tensor without dimensions.
        in_two_steps: PyTorch compares a first result with a number, which tells in layouts of what has no elements.
        exact_out: ``out`` has the result's type and no other.
        result_dtype: a function of the operands that gives the result's type, where it is not the promoted one.
    """

    title: str | Callable[[tuple[Any, ...]], str] | None = None
    refuses: Callable[[tuple[Any, ...], dtype], None] | None = None
    rounds_numbers: bool = False
    wide_second: bool = False
    takes_numbers: bool = False
    saves_result: bool = False
    whole: bool = False
    divides: bool = False
    decides: int = 0
    gradients_decided: tuple[int, ...] = ()
    row_major: bool = False
    like_nothing: tuple[int, ...] = ()
    numbers_apart: bool = False
    in_two_steps: bool = False
    exact_out: bool = False
    result_dtype: Callable[[tuple[Any, ...]], dtype] | None = None
