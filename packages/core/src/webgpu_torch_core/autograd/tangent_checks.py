"""What a custom function's ``jvp`` may return."""

from __future__ import annotations

from collections.abc import Sequence

from ..tensors.tensor import Tensor

_VIEW = "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view"


def _whole(tensor: Tensor) -> Tensor:
    return tensor if tensor._base is None else tensor._base


def check_views(
    dirty: Sequence[Tensor],
    args: Sequence[object],
    results: Sequence[object],
    given: Sequence[Tensor | None],
    own: Sequence[Tensor | None],
    written: Sequence[bool],
) -> None:
    """Raise a RuntimeError where outputs that share memory with an input have tangents that do not share that of its tangent.

    Args:
        dirty, args, results: the inputs that were changed in place, the inputs, and the outputs.
        given, own: the tangents of inputs and outputs.
        written: whether ``jvp`` wrote into each tangent of an input.
    """
    for result, tangent in zip(results, own, strict=True):
        for argument, theirs, changed_too in zip(args, given, written, strict=True):
            if not isinstance(argument, Tensor) or not isinstance(result, Tensor) or theirs is None:
                continue
            if any(result is changed for changed in dirty):
                if result is argument and (tangent is not theirs or not changed_too):
                    raise RuntimeError(
                        "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is "
                        "modifying an input inplace, then the jvp function must modify the corresponding gradient inplace."
                    )
            elif result is argument or (result._base is not None and _whole(result) is _whole(argument)):
                if tangent is None or tangent._base is None:
                    raise RuntimeError(f"{_VIEW}.")
                if _whole(tangent) is not _whole(theirs):
                    which = "given forward mode gradient" if argument._base is None else "same base"
                    raise RuntimeError(f"{_VIEW} of the {which}.")


def check_constants(tangents: Sequence[Tensor | None], outputs: Sequence[object], constants: Sequence[object]) -> None:
    """Raise a RuntimeError where an output that has no gradient was given a tangent.

    Args:
        tangents: what ``jvp`` returned.
        outputs: what ``forward`` returned.
        constants: the outputs that were marked as not differentiable.
    """
    for number, (each, tangent) in enumerate(zip(outputs, tangents, strict=False)):
        constant = not isinstance(each, Tensor) or each.dtype.category < 2
        if tangent is not None and (constant or any(each is other for other in constants)):
            raise RuntimeError(
                f"A forward gradient was given for output {number}, which is not differentiable. You should return None at "
                "that position instead."
            )
