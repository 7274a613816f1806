"""Checking gradients against finite differences, as ``torch.autograd.gradcheck``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..dispatch.registry import OPERATIONS
from ..notices import warn
from ..record.grad_mode import enable_grad
from ..tensors.kinds import strided
from ..tensors.tensor import Tensor
from .engine import grad, stack
from .gradient_checks import (
    GradcheckError,
    check_undefined,
    check_zero_cotangents,
    check_zero_tangents,
    close,
)
from .jacobians import (
    Input,
    analytical_jacobians,
    as_real,
    as_tuple,
    differentiable,
    forward_rows,
    get_analytical_jacobian,
    get_numerical_jacobian,
    moved_part,
    numerical_jacobians,
    units,
    with_all_values,
)


class Checked(NamedTuple):
    """What a call of :func:`gradcheck` checks, and how exactly."""

    func: Callable[..., Any]
    inputs: tuple[Input, ...]
    floating: list[int]
    eps: float
    atol: float
    rtol: float
    apart: float
    fast: bool


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None,
) -> bool:  # fmt: skip
    """Return whether the gradients of a function are those that central differences give.

    Element (i, j) of the numerical Jacobian is ``(f(x + eps e_j)_i - f(x - eps e_j)_i) / (2 eps)``.

    Args:
        func: takes tensors and returns a tensor or several.
        inputs: a tensor or several; those that require gradients are checked, and should be of type float64.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: raise instead of returning False.
        nondet_tol: how far two backward passes may be apart.
        check_undefined_grad: check that outputs without a gradient are supported.
        check_grad_dtypes: check that gradients have the types of their inputs.
        fast_mode: check ``v @ J @ u`` for one random direction u of every input and v of every output, and every element only if
            these differ: a pass or two instead of one for each element.
        check_forward_ad: check what forward-mode differentiation gives, too.
        check_backward_ad: check what the backward pass gives.
        check_batched_grad, check_batched_forward_grad: accepted.
        masked: a sparse input is differentiated by the values that it has; by all of its elements unless True.

    Raises:
        GradcheckError: the gradients differ.
        AssertionError: neither mode is to be checked.
        ValueError: no input requires a gradient, or an output is not dense.
        RuntimeError: an input has a dimension of stride 0.
    """
    if not check_forward_ad and not check_backward_ad:
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    given = as_tuple(inputs)
    _check_inputs(given, check_forward_ad)
    if not masked:
        given = tuple(map(with_all_values, given))
    probe = as_tuple(func(*given))
    _check_outputs(probe)
    floating = [number for number, each in enumerate(probe) if isinstance(each, Tensor) and each.dtype.category >= 2]

    def run(fast: bool) -> None:
        checked = Checked(func, given, floating, eps, atol, rtol, nondet_tol, fast)
        directions = [units(moved_part(each), fast) for each in differentiable(given)]
        numerical = [
            numerical_jacobians(func, given, each, floating, eps, along)
            for each, along in zip(differentiable(given), directions, strict=True)
        ]
        outputs = _check_backward(checked, numerical, directions) if check_backward_ad else []
        if check_forward_ad:
            _check_forward(checked, numerical, directions)
            if check_undefined_grad:
                check_zero_tangents(func, given)
        if outputs:
            check_zero_cotangents(outputs, differentiable(given), check_grad_dtypes)
            if check_undefined_grad:
                check_undefined(outputs, differentiable(given))

    try:
        try:
            run(fast_mode)
        except GradcheckError:
            if fast_mode:
                # Says which elements differ.
                run(False)
            raise
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True, nondet_tol: float = 0.0,
    check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True, fast_mode: bool = False, masked: bool = False,
) -> bool:  # fmt: skip
    """Return whether the gradients of a function's gradients are those that central differences give.

    Args:
        func: takes tensors and returns a tensor or several.
        inputs: a tensor or several; those that require gradients are checked, and should be of type float64.
        grad_outputs: the cotangents of the outputs; random ones unless given.
        gen_non_contig_grad_outputs: let the random ones lie in memory with gaps.
        eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes: as for :func:`gradcheck`.
        fast_mode: as for :func:`gradcheck`.
        check_batched_grad, masked: as for :func:`gradcheck`.
        check_fwd_over_rev: differentiate the gradients in forward mode, too.
        check_rev_over_rev: differentiate the gradients by the backward pass.

    Raises:
        GradcheckError: the gradients differ.
        AssertionError: neither mode is to be checked, or ``check_undefined_grad`` without ``check_rev_over_rev``.
    """
    if not check_fwd_over_rev and not check_rev_over_rev:
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    given = as_tuple(inputs)
    if grad_outputs is None:
        outputs = differentiable(as_tuple(func(*given)))
        seeds = tuple(_random(each, gen_non_contig_grad_outputs) for each in outputs)
    else:
        seeds = as_tuple(grad_outputs)
    wanted = [number for number, each in enumerate(given) if isinstance(each, Tensor) and each.requires_grad]

    def slopes(*arguments: Input) -> tuple[Input, ...]:
        values, cotangents = arguments[: len(given)], arguments[len(given) :]
        with enable_grad():
            values = tuple(
                each
                if not isinstance(each, Tensor) or number not in wanted or each.requires_grad
                else each.requires_grad_()
                for number, each in enumerate(values)
            )
            outputs = differentiable(as_tuple(func(*values)))
            targets = [values[number] for number in wanted]
            found = grad(outputs, targets, cotangents, create_graph=True, allow_unused=True)
        return tuple(each for each in found if each is not None)

    return gradcheck(
        slopes, (*given, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _random(output: Tensor, gaps: bool) -> Tensor:
    shape = (*output.shape, 2) if gaps else tuple(output.shape)
    made = OPERATIONS["rand"].function(shape, dtype=output.dtype, device=output.device)
    return (made[..., 0] if gaps else made).detach().requires_grad_()


def _check_outputs(outputs: Sequence[object]) -> None:
    for each in differentiable(outputs):
        if each.is_mkldnn or each.layout is not strided:
            raise ValueError(
                f"{'MKLDNN' if each.is_mkldnn else 'Sparse'} output is not supported at gradcheck yet. Please call "
                "to_dense(masked_grad=...) on the output of fn for gradcheck."
            )


def _check_inputs(inputs: Sequence[object], forward: bool) -> None:
    found = False
    for number, each in enumerate(inputs):
        if not isinstance(each, Tensor) or not each.requires_grad:
            continue
        found = True
        if each.dtype.name not in ("float64", "complex128"):
            warn(
                f"Input #{number} requires gradient and is not a double precision floating point or complex. This check will "
                "likely fail if all the inputs are not of double precision floating point or complex. ",
            )
        if each.is_mkldnn and forward:
            raise ValueError("MKLDNN inputs are not support for forward AD gradcheck.")
        strides = each.stride() if each.layout is strided else ()
        if any(stride == 0 and size > 1 for stride, size in zip(strides, each.shape, strict=False)):
            raise RuntimeError(
                f"The {number}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping "
                "to be able to compute the numerical gradients correctly. You should call .contiguous on the input before "
                "passing it to gradcheck."
            )
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )


def _check_forward(checked: Checked, numerical: Sequence[Sequence[Tensor]], directions: Sequence[Tensor]) -> None:
    """Check the Jacobians that forward mode gives, a row for each direction of an input."""
    inputs = checked.inputs
    wanted = [number for number, each in enumerate(inputs) if isinstance(each, Tensor) and each.requires_grad]
    for expected, along, index in zip(numerical, directions, wanted, strict=True):
        rows = forward_rows(checked.func, inputs, index, along) or [[] for _ in checked.floating]
        for number, row, column in zip(checked.floating, rows, expected, strict=True):
            found = stack(row) if row else along.new_zeros((0, 0))
            if not close(found, column, checked.atol * along.sum(1, keepdim=True), checked.rtol):
                raise GradcheckError(
                    f"Jacobian computed with forward mode mismatch for output {number} with respect to input {index},\n"
                    f"numerical:{column}\nanalytical:{found}\n"
                )


def _check_backward(
    checked: Checked, numerical: Sequence[Sequence[Tensor]], directions: Sequence[Tensor]
) -> list[Tensor]:
    """Check the Jacobians that the backward pass gives, and return the outputs that have gradients."""
    wanted = differentiable(checked.inputs)
    # The differences moved the inputs: only now a graph may save them.
    outputs = as_tuple(checked.func(*checked.inputs))
    places = [number for number, each in enumerate(outputs) if isinstance(each, Tensor) and each.requires_grad]
    if not places and any(bool((column != 0).any()) for columns in numerical for column in columns):
        raise GradcheckError("Numerical gradient for function expected to be zero")
    for number in places:
        output, column = as_real(outputs[number]), checked.floating.index(number)
        seeds = units(output.detach(), checked.fast)
        first, again = (analytical_jacobians(output, wanted, seeds) for _ in range(2))
        for index, (one, other) in enumerate(zip(first, again, strict=True)):
            where = f"output {number} with respect to input {_place(checked.inputs, wanted[index])}"
            expected = numerical[index][column]
            if checked.fast:
                _check_products(
                    checked,
                    where,
                    directions[index].to(one.dtype) @ one,
                    expected @ seeds.t(),
                    directions[index],
                    seeds,
                )
            else:
                _check_jacobian(checked, where, one, expected, outputs[number].dtype.is_complex)
            if not bool(((one - other).abs() <= checked.apart).all()):
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
                    "different values, although analytical gradient matches numerical gradient. The tolerance for "
                    f"nondeterminism was {checked.apart}."
                )
    return [outputs[number] for number in places]


def _check_products(
    checked: Checked, where: str, found: Tensor, expected: Tensor, along: Tensor, seeds: Tensor
) -> None:
    if not close(found, expected, checked.atol * float(along.sum() * seeds.sum()), checked.rtol):
        raise GradcheckError(f"Jacobian mismatch for {where},\nnumerical:{expected}\nanalytical:{found}\n")


def _check_jacobian(checked: Checked, where: str, found: Tensor, expected: Tensor, is_complex: bool) -> None:
    """Compare Jacobians ``[elements of the input, elements of the output]``; of complex outputs the parts one after the other."""
    if not is_complex or found.shape != expected.shape:
        parts = [("", slice(None))]
    else:
        start = "While considering the {} part of complex outputs only, "
        parts = [(start.format("imaginary"), slice(1, None, 2)), (start.format("real"), slice(0, None, 2))]
    for words, columns in parts:
        mine, theirs = (each[..., columns] if words else each for each in (found, expected))
        if not close(mine, theirs, checked.atol, checked.rtol):
            raise GradcheckError(f"{words}Jacobian mismatch for {where},\nnumerical:{theirs}\nanalytical:{mine}\n")


def _place(inputs: Sequence[object], wanted: object) -> int:
    return next(number for number, each in enumerate(inputs) if each is wanted)


__all__ = [
    "Checked", "GradcheckError", "get_analytical_jacobian", "get_numerical_jacobian", "gradcheck", "gradgradcheck",
]  # fmt: skip
