"""What a user gets wrong is told with an error of PyTorch's type; nothing that PyTorch refuses is taken in silence."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import mistakes_with_modules
import mistakes_with_tensors
import pytest
import torch
import webgpu_torch as ours
from mistakes_with_modules import SAFE_ALONE

for _part in ("distributions", "func", "testing", "nn.utils.parametrizations", "nn.utils.prune"):
    for _library in ("torch", "webgpu_torch"):
        importlib.import_module(f"{_library}.{_part}")

MISTAKES: dict[str, Callable[[Any], Any]] = {
    f"{family}: {name}": mistake
    for module in (mistakes_with_tensors, mistakes_with_modules)
    for family, table in module.TABLES.items()
    for name, mistake in table.items()
}
FAMILIES = [family for module in (mistakes_with_tensors, mistakes_with_modules) for family in module.TABLES]
#: errors of another type than PyTorch's, and why
OTHERS = {
    "layers: embedding_bag outside": "positions outside are an IndexError everywhere; PyTorch has a RuntimeError here alone",
    "losses: l1_loss of a list": "PyTorch has Python's own AttributeError, not a check's",
    "gradients: hessian of integers": "the error of requires_grad_, which functions of derivatives share",
}
#: of every so many mistakes one is made on other devices at once, and all in the slow run
SHARE = 12


@pytest.fixture(autouse=True)
def validating() -> None:
    """Have PyTorch look at the parameters of distributions: its compiler, once another test has used it, turns that off."""
    torch.distributions.Distribution.set_default_validate_args(True)


def _read(result: Any) -> None:
    """Read what an operation returned: what elements have wrong is told then."""
    if isinstance(result, list | tuple):
        for each in result:
            _read(each)
    elif isinstance(result, dict):
        _read(list(result.values()))
    elif hasattr(result, "tolist"):
        result.tolist()


def _error(library: Any, mistake: Callable[[Any], Any], device: str) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.manual_seed(0)
        try:
            if device == "cpu":
                _read(mistake(library))
            else:
                with library.device(device):
                    _read(mistake(library))
        except Exception as error:
            return error
        finally:
            library.set_default_dtype(library.float32)
            library.set_default_device(None)
    return None


def _expected(error: Exception) -> type[Exception]:
    """Return what stands here for the type of one of PyTorch's errors."""
    if type(error).__name__ == "_LinAlgError":
        return ours.linalg.LinAlgError
    return next(each for each in type(error).__mro__ if each.__module__ == "builtins")  # type: ignore[return-value]


def _complaint(name: str, device: str) -> str | None:
    """Return what is wrong with the answer to a mistake, None if it is right."""
    refusal, found = _error(torch, MISTAKES[name], "cpu"), _error(ours, MISTAKES[name], device)
    if refusal is None:
        return f"{name}: PyTorch takes this: it is no mistake"
    if found is None:
        return f"{name}: taken in silence; PyTorch: {type(refusal).__name__}({refusal})"
    right = isinstance(found, _expected(refusal))
    if name in OTHERS and device == "cpu":
        return f"{name}: of PyTorch's type by now: {found!r}" if right else None
    if right or name in OTHERS:
        return None
    return f"{name}: {found!r} instead of {type(refusal).__name__}({refusal})"


def _check(family: str, device: str, share: int = 1) -> None:
    """Make one of so many mistakes of a family."""
    names = [each for each in MISTAKES if each.startswith(f"{family}: ")]
    if device != "cpu":
        names = [each for each in names if each.partition(": ")[2] not in SAFE_ALONE]
    wrong = [each for each in (_complaint(name, device) for name in names[::share]) if each is not None]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("family", FAMILIES)
def test_mistakes(family: str) -> None:
    _check(family, "cpu")


@pytest.mark.parametrize("family", FAMILIES)
def test_some_mistakes_on_devices(family: str, device: str) -> None:
    if device != "cpu":
        _check(family, device, SHARE)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_mistakes_on_devices(family: str, device: str) -> None:
    if device != "cpu":
        _check(family, device)


def test_compiling_what_cannot_be_called() -> None:
    """PyTorch's own errors of these take seconds to import."""
    with pytest.raises(TypeError, match="callable"):
        ours.compile(5)
    with pytest.raises(RuntimeError, match="nope"):
        ours.compile(ours.sin, backend="nope")


def test_few_differ() -> None:
    assert len(MISTAKES) >= 400
    assert len(OTHERS) <= 0.03 * len(MISTAKES)
    assert {*OTHERS} <= {*MISTAKES}
