"""Warnings that point at the line which called the library, in PyTorch's words."""

from __future__ import annotations

import sys
import warnings


class Notices:
    """What is said once and was said already, whether it is said again (:func:`torch.set_warn_always`), and how often anything was."""

    always = False
    said: set[str] = set()
    count = 0


class Determinism:
    """What :func:`torch.use_deterministic_algorithms` asked for."""

    wanted = False
    warn_only = False


def _users_level() -> int:
    """Return the ``stacklevel`` with which a warning of the caller's points at the line that called the library."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and (
        frame.f_globals.get("__name__", "").startswith("webgpu_torch")
        or frame.f_code.co_filename.startswith("<operation")
    ):
        frame, level = frame.f_back, level + 1
    return level


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Say something about the line that called the library."""
    Notices.count += 1
    warnings.warn(text, category, stacklevel=_users_level())


def warn_once(text: str, category: type[Warning] = UserWarning, *, repeats: bool = True) -> None:
    """Say something once in a process; ``repeats``: every time where :func:`torch.set_warn_always` asks for it."""
    if text not in Notices.said or (repeats and Notices.always):
        Notices.said.add(text)
        warn(text, category)


def warn_of_old_function(name: str, instead: str) -> None:
    """Say that a function is deprecated in favour of another one."""
    warn_once(f"torch.{name} is deprecated in favor of {instead} and will be removed in a future PyTorch release.")


def warn_of_copy(name: str) -> None:
    """Say that a constructor was given a tensor."""
    warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        f"sourceTensor.detach().clone().requires_grad_(True), rather than {name}(sourceTensor)."
    )


def warn_of_resizing(given: tuple[int, ...], required: tuple[int, ...]) -> None:
    """Say that a tensor given for a result had other sizes, and elements."""
    if 0 not in given:
        warn(
            f"An output with one or more elements was resized since it had shape {list(given)}, which does not match the required "
            f"output shape {list(required)}. This behavior is deprecated, and in a future PyTorch release outputs will not be resized "
            "unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with "
            "t.resize_(0)."
        )


def warn_of_transposition(ndim: int) -> None:
    """Say that ``.T`` is for matrices."""
    warn_once(
        "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in a "
        "future release. Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse "
        "the dimensions of a tensor."
        if ndim
        else "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases."
    )


def warn_of_arrays() -> None:
    """Say that a list of arrays is read number by number."""
    warn_once(
        "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to a single "
        "numpy.ndarray with numpy.array() before converting to a tensor."
    )


def refuse_place_of_copy(what: str, place: object) -> None:
    """Raise where the older way to make a tensor of a tensor is given a device, too."""
    if place is not None:
        raise RuntimeError(
            f"Legacy tensor {what}(tensor, device=device) is not supported.  Use torch.tensor(...) or torch.as_tensor(...) instead."
        )


def alert_not_deterministic(caller: str) -> None:
    """Refuse what :func:`torch.use_deterministic_algorithms` forbids PyTorch, or warn where it is to warn only.

    Raises:
        RuntimeError: algorithms have to be deterministic.
    """
    if not Determinism.wanted:
        return
    asked = f"use_deterministic_algorithms(True{', warn_only=True' * Determinism.warn_only})"
    text = f"{caller} does not have a deterministic implementation, but you set 'torch.{asked}'. "
    also = " also" * (not Determinism.warn_only)
    advice = (
        f"You can{also} file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support for "
        "this operation."
    )
    if Determinism.warn_only:
        warn(text + advice)
    else:
        raise RuntimeError(
            f"{text}You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if that's acceptable "
            f"for your application. {advice}"
        )
