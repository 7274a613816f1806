"""Checking gradients against finite differences, as ``torch.autograd.gradcheck``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch.registry import OPERATIONS
from ..notices import warn
from ..operations.complex.views import view_as_real
from ..operations.creation.ranges import eye
from ..operations.random.generator import Generator
from ..record.devices import flush
from ..record.grad_mode import enable_grad
from ..tensors.kinds import strided
from ..tensors.tensor import Tensor
from .engine import Pass, grad, stack
from .forward_ad import dual_level, make_dual, unpack_dual


class GradcheckError(RuntimeError):
    """A gradient that is not what finite differences say."""


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
        check_batched_grad, check_batched_forward_grad, masked: accepted.

    Raises:
        GradcheckError: the gradients differ.
        AssertionError: neither mode is to be checked.
        ValueError: no input requires a gradient, or an output is not dense.
        RuntimeError: an input has a dimension of stride 0.
    """
    del check_batched_grad, check_batched_forward_grad, masked
    if not check_forward_ad and not check_backward_ad:
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    given = _tuple(inputs)
    _check_inputs(given, check_forward_ad)
    probe = _tuple(func(*given))
    _check_outputs(probe)
    floating = [number for number, each in enumerate(probe) if _is_tensor(each) and each.dtype.category >= 2]

    def run(fast: bool) -> None:
        wanted = _differentiable(given)
        directions = [_units(_real(each.detach()), fast) for each in wanted]
        numerical = [
            _numerical(func, given, each, floating, eps, along) for each, along in zip(wanted, directions, strict=True)
        ]
        if check_backward_ad:
            tolerances = (atol, rtol, nondet_tol)
            _check(
                func, given, floating, numerical, directions, fast, tolerances, check_undefined_grad, check_grad_dtypes
            )
        if check_forward_ad:
            _check_forward(func, given, floating, numerical, directions, atol, rtol)

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
        check_batched_grad, masked: accepted.
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
    given = _tuple(inputs)
    if grad_outputs is None:
        outputs = _differentiable(_tuple(func(*given)))
        seeds = tuple(_random(each, gen_non_contig_grad_outputs) for each in outputs)
    else:
        seeds = _tuple(grad_outputs)
    wanted = [number for number, each in enumerate(given) if _is_tensor(each) and each.requires_grad]

    def slopes(*arguments: Any) -> tuple[Any, ...]:
        values, cotangents = arguments[: len(given)], arguments[len(given) :]
        with enable_grad():
            values = tuple(
                each if not _is_tensor(each) or number not in wanted or each.requires_grad else each.requires_grad_()
                for number, each in enumerate(values)
            )
            outputs = _differentiable(_tuple(func(*values)))
            targets = [values[number] for number in wanted]
            found = grad(outputs, targets, cotangents, create_graph=True, allow_unused=True)
        return tuple(each for each in found if each is not None)

    return gradcheck(
        slopes, (*given, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _random(output: Any, gaps: bool) -> Any:
    shape = (*output.shape, 2) if gaps else tuple(output.shape)
    made = OPERATIONS["rand"].function(shape, dtype=output.dtype, device=output.device)
    return (made[..., 0] if gaps else made).detach().requires_grad_()


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _differentiable(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(each for each in values if _is_tensor(each) and each.requires_grad)


def _check_outputs(outputs: Sequence[object]) -> None:
    for each in _differentiable(outputs):
        if each.is_mkldnn or each.layout is not strided:
            raise ValueError(
                f"{'MKLDNN' if each.is_mkldnn else 'Sparse'} output is not supported at gradcheck yet. Please call "
                "to_dense(masked_grad=...) on the output of fn for gradcheck."
            )


def _check_inputs(inputs: Sequence[Any], forward: bool) -> None:
    found = False
    for number, each in enumerate(inputs):
        if not _is_tensor(each) or not each.requires_grad:
            continue
        found = True
        if each.dtype.name != "float64":
            warn(
                f"Input #{number} requires gradient and is not a double precision floating point or complex. This check will "
                "likely fail if all the inputs are not of double precision floating point or complex. ",
            )
        if each.is_mkldnn and forward:
            raise ValueError("MKLDNN inputs are not support for forward AD gradcheck.")
        if any(stride == 0 and size > 1 for stride, size in zip(each.stride(), each.shape, strict=True)):
            raise RuntimeError(
                f"The {number}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping "
                "to be able to compute the numerical gradients correctly. You should call .contiguous on the input before "
                "passing it to gradcheck."
            )
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )


def _real(value: Any) -> Any:
    """Return complex numbers as pairs of real ones."""
    if value.dtype.is_complex:
        return view_as_real(value)
    return value


def _units(like: Tensor, fast: bool) -> Tensor:
    """Return directions to move a real tensor in, one a row: those of its elements, or one that is random and in all of them."""
    if not fast:
        return eye(like.numel(), dtype=like.dtype, device=like.device)
    drawn = OPERATIONS["rand"].function((1, like.numel()), generator=Generator().manual_seed(0))
    return (drawn / drawn.norm()).to(like.device, like.dtype)


def _check_forward(
    func: Callable[..., object], inputs: tuple[object, ...], floating: list[int], numerical: list[Sequence[Tensor]],
    directions: Sequence[Tensor], atol: float, rtol: float,
) -> None:  # fmt: skip
    """Check the Jacobians that forward mode gives, a row for each direction of an input."""
    wanted = [(number, each) for number, each in enumerate(inputs) if isinstance(each, Tensor) and each.requires_grad]
    for expected, along, (index, given) in zip(numerical, directions, wanted, strict=True):
        like = given.detach()
        rows: list[list[Tensor]] = [[] for _ in floating]
        for each in along:
            direction = like.new_zeros(like.shape)
            _real(direction).copy_(each.reshape(_real(like).shape))
            for row, tangent in zip(rows, _tangents(func, inputs, index, direction, floating), strict=True):
                row.append(tangent)
        for number, row, column in zip(floating, rows, expected, strict=True):
            found = stack(row) if row else like.new_zeros((0, 0))
            if not _close(found, column, atol * along.sum(1, keepdim=True), rtol):
                raise GradcheckError(
                    f"Jacobian computed with forward mode mismatch for output {number} with respect to input {index},\n"
                    f"numerical:{column}\nanalytical:{found}\n"
                )


def _tangents(
    func: Callable[..., object], inputs: tuple[object, ...], index: int, direction: Tensor, floating: list[int]
) -> list[Tensor]:
    """Return the tangents of the outputs, flat and real, for one tangent of one input."""
    with dual_level():
        values = list(inputs)
        for number, each in enumerate(inputs):
            if isinstance(each, Tensor):
                plain = each.detach()
                moved = direction if number == index else plain.new_zeros(plain.shape)
                values[number] = make_dual(plain, moved) if each.requires_grad else plain
        outputs = _tuple(func(*values))
        pairs = [unpack_dual(outputs[number]) for number in floating]
    return [
        _real(primal.new_zeros(primal.shape) if tangent is None else tangent.to(primal.dtype)).detach().reshape(-1)
        for primal, tangent in pairs
    ]


def _check(
    func: Callable[..., Any], inputs: tuple[Any, ...], floating: list[int], numerical: list[Any], directions: Sequence[Tensor],
    fast: bool, tolerances: tuple[float, float, float], undefined: bool, types: bool,
) -> None:  # fmt: skip
    wanted, (atol, rtol, apart) = _differentiable(inputs), tolerances
    # The differences moved the inputs: only now a graph may save them.
    outputs = _tuple(func(*inputs))
    places = [number for number, each in enumerate(outputs) if _is_tensor(each) and each.requires_grad]
    if not places:
        if any(bool((column != 0).any()) for columns in numerical for column in columns):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    for number, column in ((number, floating.index(number)) for number in places):
        output = _real(outputs[number])
        seeds = _units(output.detach(), fast)
        first, again = _analytical(output, wanted, seeds), _analytical(output, wanted, seeds)
        for index, (one, other) in enumerate(zip(first, again, strict=True)):
            found, expected, scale = one, numerical[index][column], 1.0
            if fast:
                along = directions[index].to(one.dtype)
                found, expected, scale = along @ one, expected @ seeds.t(), float(along.sum() * seeds.sum())
            if not _close(found, expected, atol * scale, rtol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {number} with respect to input {_place(inputs, wanted[index])},\n"
                    f"numerical:{expected}\nanalytical:{found}\n"
                )
            if not bool(((one - other).abs() <= apart).all()):
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
                    "different values, although analytical gradient matches numerical gradient. The tolerance for "
                    f"nondeterminism was {apart}."
                )
    tracked = [outputs[number] for number in places]
    _check_zero_cotangents(tracked, wanted, types)
    if undefined:
        _check_undefined(tracked, wanted)


def _place(inputs: Sequence[Any], wanted: Any) -> int:
    return next(number for number, each in enumerate(inputs) if each is wanted)


def _close(actual: Any, expected: Any, atol: Any, rtol: float) -> bool:
    if not actual.numel() and not expected.numel():
        return True
    if actual.shape != expected.shape:
        return False
    return bool(((actual - expected).abs() <= atol + rtol * expected.abs()).all())


def _numerical(
    func: Callable[..., Any], inputs: tuple[Any, ...], wanted: Any, floating: list[int], eps: float, directions: Tensor
) -> Any:
    """Return, for every floating-point output, its Jacobian by one input: directions of the input × elements of the output."""

    # In place, so that functions which reach their inputs by another way are moved, too. They run as they always do: what they
    # ask of gradients has the answers that it has elsewhere.
    alias = _real(wanted.detach())
    before = alias.clone()
    rows: list[list[Any]] = [[] for _ in floating]
    for direction in directions:
        sides = []
        for step in (eps, -eps):
            alias.copy_(before + step * direction.reshape(alias.shape))
            results = _tuple(func(*inputs))
            sides.append([_real(results[number].detach()).clone().reshape(-1) for number in floating])
        alias.copy_(before)
        for place, (after, prior) in enumerate(zip(*sides, strict=True)):
            _require_alike(after, prior)
            rows[place].append((after - prior) / (2 * eps))
    return [stack(row) if row else wanted.detach().new_zeros((0, 0)) for row in rows]


def _require_alike(one: Tensor, other: Tensor) -> None:
    """Raise PyTorch's error where a function's outputs at two places are not of one shape and type."""
    for what, same in (("shape", one.shape == other.shape), ("dtype", one.dtype is other.dtype)):
        if not same:
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed on index 0, but got:\n"
                f" tensors of {one.shape}, {one.dtype} and {other.shape}, {other.dtype}."
            )


def _analytical(output: Any, wanted: Sequence[Any], seeds: Tensor) -> list[Any]:
    """Return the Jacobians of an output by the inputs, as the backward pass gives them: a column for each of its seeds."""

    columns: list[list[Any]] = [[] for _ in wanted]
    for seed in seeds:
        found = grad(output, wanted, seed.reshape(output.shape), retain_graph=True, allow_unused=True)
        for place, (each, like) in enumerate(zip(found, wanted, strict=True)):
            value = like.detach().new_zeros(like.shape) if each is None else each
            columns[place].append(_real(value).detach().reshape(-1).to(output.dtype))
        # Two passes of the same seed are to be the same kernels, whatever was recorded before them: others may round otherwise.
        flush()
    return [
        stack(column, 1) if column else output.detach().new_zeros((_real(like.detach()).numel(), 0))
        for column, like in zip(columns, wanted, strict=True)
    ]


def _check_zero_cotangents(outputs: Sequence[Any], wanted: Sequence[Any], types: bool) -> None:
    """Check that gradients are linear in the cotangent: of nothing comes nothing."""
    zeros = [each.detach().new_zeros(each.shape) for each in outputs]
    for number, each in enumerate(grad(outputs, wanted, zeros, retain_graph=True, allow_unused=True)):
        if each is None:
            continue
        if bool((each != 0).any()):
            raise GradcheckError("backward not multiplied by grad_output")
        if types and each.dtype is not wanted[number].dtype:
            raise GradcheckError(f"grad is of type {each.dtype}, but the input has type {wanted[number].dtype}")


def _check_undefined(outputs: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Check that backward takes outputs that have no gradient."""
    edges = [each._gradient_edge() for each in outputs]
    numbers = {each._gradient_edge(): number for number, each in enumerate(wanted)}
    zeros = [each.detach().new_zeros(each.shape) for each in outputs]
    missing = [set(range(len(edges)))]
    if len(edges) > 1:
        missing += [{number} for number in range(len(edges))]
    for without in missing:
        roots = [
            (edge, None if number in without else zero)
            for number, (edge, zero) in enumerate(zip(edges, zeros, strict=True))
        ]
        found = Pass(roots, numbers, False, True).run()
        if any(bool((each != 0).any()) for each in found.values()):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
            )
