"""Jacobians for ``torch.autograd.gradcheck``: by central differences, by backward passes and by forward mode.

What is moved of an input, and differentiated by, are its elements; of a sparse one the values that it has, of complex numbers both parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..dispatch.registry import OPERATIONS
from ..notices import warn
from ..operations.complex.views import view_as_real
from ..operations.creation.ranges import eye
from ..operations.random.generator import Generator
from ..record.devices import flush
from ..tensors.kinds import strided
from ..tensors.tensor import Tensor
from .engine import grad, stack
from .forward_ad import UnpackedDualTensor, dual_level, make_dual, unpack_dual

#: a tensor of any layout: sparse ones have methods that others have not
Input: TypeAlias = Any


def as_tuple(value: object) -> tuple[Input, ...]:
    """Return several values as a tuple, and one as a tuple of one."""
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def differentiable(values: Sequence[object]) -> tuple[Input, ...]:
    """Return the tensors whose gradients are wanted."""
    return tuple(each for each in values if isinstance(each, Tensor) and each.requires_grad)


def as_real(value: Tensor) -> Tensor:
    """Return complex numbers ``[...]`` as pairs of real ones ``[..., 2]``, real numbers as they are."""
    return view_as_real(value) if value.dtype.is_complex else value


def _has_all_elements(input: Tensor) -> bool:
    return input.layout is strided or input.is_mkldnn


def moved_part(input: Input) -> Tensor:
    """Return the real numbers that an input of any shape and layout is made of, as a view of its memory."""
    return as_real(input.detach() if _has_all_elements(input) else input._values())


def moved_gradient(gradient: Input, input: Input) -> Tensor:
    """Return what a gradient, None for zeros, has for the numbers that are moved of an input of the same shape."""
    if gradient is None:
        part = moved_part(input)
        return part.new_zeros(part.shape)
    gradient = gradient.detach()
    if _has_all_elements(input):
        return as_real(gradient if _has_all_elements(gradient) else gradient.to_dense())
    if gradient.layout is not input.layout or gradient._values().shape != input._values().shape:
        return as_real(input._picked(gradient.to_dense()).detach())
    return as_real(gradient._values())


def with_all_values(input: Input) -> Input:
    """Return a sparse tensor that has a value at each of its places, zeros among them; others as they are."""
    if not isinstance(input, Tensor) or _has_all_elements(input):
        return input
    dense = input.detach().to_dense()
    block = getattr(input, "_block", (1, 1))
    shape = {"blocksize": block} if block != (1, 1) else {}
    ones = dense.new_ones(dense.shape)
    every = ones.to_sparse(input.sparse_dim()) if input.is_sparse else ones.to_sparse(layout=input.layout, **shape)
    return every._with(every._picked(dense)).requires_grad_(input.requires_grad)


def units(like: Tensor, fast: bool) -> Tensor:
    """Return directions to move a real tensor in, one a row: those of its elements, or one that is random and in all of them."""
    if not fast:
        return eye(like.numel(), dtype=like.dtype, device=like.device)
    drawn = OPERATIONS["rand"].function((1, like.numel()), generator=Generator().manual_seed(0))
    return (drawn / drawn.norm()).to(like.device, like.dtype)


def numerical_jacobians(
    func: Callable[..., object],
    inputs: tuple[object, ...],
    wanted: Input,
    floating: list[int],
    eps: float,
    directions: Tensor,
) -> list[Tensor]:
    """Return, for every floating-point output, its Jacobian by one input: directions of the input × elements of the output."""
    # In place, so that functions which reach their inputs by another way are moved, too. They run as they always do: what they
    # ask of gradients has the answers that it has elsewhere.
    alias = moved_part(wanted)
    before = alias.clone()
    rows: list[list[Any]] = [[] for _ in floating]
    for direction in directions:
        sides = []
        for step in (eps, -eps):
            alias.copy_(before + step * direction.reshape(alias.shape))
            results = as_tuple(func(*inputs))
            sides.append([as_real(results[number].detach()).clone().reshape(-1) for number in floating])
        alias.copy_(before)
        for place, (after, prior) in enumerate(zip(*sides, strict=True)):
            _require_alike(after, prior)
            rows[place].append((after - prior) / (2 * eps))
    return [stack(row) if row else before.new_zeros((0, 0)) for row in rows]


def _require_alike(one: Tensor, other: Tensor) -> None:
    """Raise PyTorch's error where a function's outputs at two places are not of one shape and type."""
    for what, same in (("shape", one.shape == other.shape), ("dtype", one.dtype is other.dtype)):
        if not same:
            raise AssertionError(
                f"Expected `func` to return outputs with the same {what} when inputs are perturbed on index 0, but got:\n"
                f" tensors of {one.shape}, {one.dtype} and {other.shape}, {other.dtype}."
            )


def analytical_jacobians(output: Tensor, wanted: Sequence[Input], seeds: Tensor) -> list[Tensor]:
    """Return the Jacobians ``[elements of an input, seeds]`` of a real output by the inputs, as the backward pass gives them."""
    columns: list[list[Any]] = [[] for _ in wanted]
    for seed in seeds:
        found = grad(output, wanted, seed.reshape(output.shape), retain_graph=True, allow_unused=True)
        for place, (each, like) in enumerate(zip(found, wanted, strict=True)):
            columns[place].append(moved_gradient(each, like).reshape(-1).to(output.dtype))
        # Two passes of the same seed are to be the same kernels, whatever was recorded before them: others may round otherwise.
        flush()
    return [
        stack(column, 1) if column else output.detach().new_zeros((moved_part(like).numel(), 0))
        for column, like in zip(columns, wanted, strict=True)
    ]


def tangents(
    func: Callable[..., object], inputs: Sequence[object], moved: dict[int, Tensor | None]
) -> list[UnpackedDualTensor]:
    """Return the outputs that are tensors of numbers with their tangents of the same shapes.

    Args:
        func: takes the inputs.
        inputs: its inputs.
        moved: the tangent of each input that has one, by its number, of its shape; None: it takes part without one.
    """
    with dual_level():
        values = list(inputs)
        for number, each in enumerate(inputs):
            if isinstance(each, Tensor):
                tangent, plain = moved.get(number), each.detach()
                values[number] = plain if tangent is None else make_dual(plain, tangent)
        outputs = as_tuple(func(*values))
        return [unpack_dual(each) for each in outputs if isinstance(each, Tensor) and each.dtype.category >= 2]


def forward_rows(
    func: Callable[..., object], inputs: tuple[object, ...], index: int, directions: Tensor
) -> list[list[Tensor]]:
    """Return the tangents ``[elements]`` of every floating-point output, real, for each direction that one input moves in."""
    others = [number for number, each in enumerate(inputs) if isinstance(each, Tensor) and each.requires_grad]
    rows: list[list[Tensor]] = []
    for each in directions:
        moved: dict[int, Tensor | None] = {}
        for number in others:
            like: Any = inputs[number]
            moved[number] = like.detach().new_zeros(like.shape)
        as_real(moved[index]).copy_(each.reshape(as_real(moved[index]).shape))  # type: ignore[arg-type]
        pairs = tangents(func, inputs, moved)
        rows = rows or [[] for _ in pairs]
        for row, (primal, tangent) in zip(rows, pairs, strict=True):
            tangent = primal.new_zeros(primal.shape) if tangent is None else tangent.to(primal.dtype)
            row.append(as_real(tangent).detach().reshape(-1))
    return rows


def _deprecate(name: str, grad_out: float) -> None:
    warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it will be removed in a "
        "future version of PyTorch. If you have a specific use for this or feature request for this to be a stable API, please file "
        "us an issue at https://github.com/pytorch/pytorch/issues/new",
        FutureWarning,
    )
    if grad_out != 1.0:
        raise ValueError(
            f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0, and got {grad_out}."
        )


def get_numerical_jacobian(
    fn: Callable[..., object], inputs: object, target: object = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[Tensor, ...]:
    """Return the Jacobians ``[elements of an input, elements of the output]`` of a function's first output, by central differences.

    Args:
        fn: takes the inputs as one tuple.
        inputs: what it takes.
        target: the inputs to differentiate by, all that require gradients unless given.
        eps: step of the differences.
        grad_out: 1; deprecated, as the whole function is.

    Raises:
        ValueError: ``grad_out`` is not 1.
    """
    _deprecate("get_numerical_jacobian", grad_out)
    given = as_tuple(inputs)
    wanted = differentiable(given) if target is None else as_tuple(target)
    first = [0]
    return tuple(
        numerical_jacobians(lambda *values: fn(values), given, each, first, eps, units(moved_part(each), False))[0]
        for each in wanted
    )


def get_analytical_jacobian(
    inputs: object, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """Return the Jacobians ``[elements of an input, elements of the output]`` of an output, by the backward pass.

    Args:
        inputs: tensors of any shapes; those that require gradients count.
        output: a real tensor that was computed from them.
        nondet_tol: how far two passes may be apart.
        grad_out: 1; deprecated, as the whole function is.

    Returns:
        The Jacobians, whether two passes agree, and whether gradients have the sizes and the types of their inputs.

    Raises:
        ValueError: ``grad_out`` is not 1, or the output is complex.
    """
    _deprecate("get_analytical_jacobian", grad_out)
    if output.dtype.is_complex:
        raise ValueError(
            "Expected output to be non-complex: get_analytical_jacobian takes no functions of complex outputs"
        )
    wanted = differentiable(as_tuple(inputs))
    seeds = units(output.detach(), False)
    first, again = analytical_jacobians(output, wanted, seeds), analytical_jacobians(output, wanted, seeds)
    found = grad(output, wanted, output.detach().new_ones(output.shape), retain_graph=True, allow_unused=True)
    pairs = [(each, like) for each, like in zip(found, wanted, strict=True) if each is not None]
    alike = all(bool(((one - other).abs() <= nondet_tol).all()) for one, other in zip(first, again, strict=True))
    sizes = all(each.shape == like.shape for each, like in pairs)
    return tuple(first), alike, sizes, all(each.dtype is like.dtype for each, like in pairs)
