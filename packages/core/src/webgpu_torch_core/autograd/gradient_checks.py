"""What ``torch.autograd.gradcheck`` checks beside Jacobians: cotangents that are zero, and such that are not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..notices import warn
from ..tensors.kinds import strided
from ..tensors.tensor import Tensor
from .engine import Pass, grad
from .jacobians import Input, tangents, units


class GradcheckError(RuntimeError):
    """A gradient that is not what finite differences say."""


def close(actual: Tensor, expected: Tensor, atol: Tensor | float, rtol: float) -> bool:
    """Return whether two tensors of any shape are of one, and equal within tolerances."""
    if not actual.numel() and not expected.numel():
        return True
    if actual.shape != expected.shape:
        return False
    return bool(((actual - expected).abs() <= atol + rtol * expected.abs()).all())


def check_zero_cotangents(outputs: Sequence[Tensor], wanted: Sequence[Input], types: bool) -> None:
    """Raise a GradcheckError where gradients are not linear in the cotangent: of nothing comes nothing.

    Also where a gradient is in a layout, or with ``types`` of a type, that its input has not.
    """
    zeros = [each.detach().new_zeros(each.shape) for each in outputs]
    for number, each in enumerate(grad(outputs, wanted, zeros, retain_graph=True, allow_unused=True)):
        if each is None:
            continue
        like = wanted[number]
        if each.layout is not strided:
            _check_layout(each, like)
            each = each.to_dense()
        if bool((each != 0).any()):
            raise GradcheckError("backward not multiplied by grad_output")
        if types and each.dtype is not like.dtype:
            raise GradcheckError(f"grad is of type {each.dtype}, but the input has type {like.dtype}")


def _check_layout(gradient: Input, like: Input) -> None:
    if gradient.layout is not like.layout:
        raise GradcheckError(f"grad is incorrect layout ({gradient.layout} is not {like.layout})")
    kind = str(like.layout).removeprefix("torch.").replace("_coo", "")
    for name in ("sparse_dim", "dense_dim"):
        found, expected = getattr(gradient, name)(), getattr(like, name)()
        if found != expected:
            raise GradcheckError(f"grad is {kind} tensor, but has incorrect {name} {found}, expected {expected}")


def check_undefined(outputs: Sequence[Tensor], wanted: Sequence[Input]) -> None:
    """Raise a GradcheckError where backward does not take outputs that have no gradient."""
    edges: list[Any] = [each._gradient_edge() for each in outputs]
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
        try:
            found = Pass(roots, numbers, False, True).run()
        except RuntimeError as error:
            _tell_of_check()
            raise GradcheckError("Expected backward function to handle undefined output grads.") from error
        if any(bool((each != 0).any()) for each in found.values()):
            _tell_of_check()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
            )


def _tell_of_check() -> None:
    warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may break existing "
        'callers of this function. If this is true for you, you can call this function with "check_undefined_grad=False" to disable '
        "the feature"
    )


def check_zero_tangents(func: Callable[..., object], inputs: tuple[Input, ...]) -> None:
    """Raise a GradcheckError where it makes a difference to tangents whether an input's is zero, or not there."""
    moved: dict[int, Tensor | None] = {}
    for number, each in enumerate(inputs):
        if isinstance(each, Tensor) and each.requires_grad:
            moved[number] = units(each.detach().abs(), True).to(each.dtype).reshape(each.shape)
    for number in moved:
        like = inputs[number].detach()
        zero = tangents(func, inputs, {**moved, number: like.new_zeros(like.shape)})
        none = tangents(func, inputs, {**moved, number: None})
        for place, (one, other) in enumerate(zip(zero, none, strict=True)):
            if (
                one.tangent is not None
                and other.tangent is not None
                and not close(one.tangent, other.tangent, 1e-8, 1e-5)
            ):
                raise GradcheckError(
                    f"Mismatch in tangent values for output with index: {place} when input: {like} has an undefined tangent value. "
                    f"Got: {one.tangent} but expected: {other.tangent}"
                )
