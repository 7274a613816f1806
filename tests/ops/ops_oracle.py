"""Running one function on PyTorch, the oracle, and on this library, and comparing all that comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
import webgpu_torch as facade
import webgpu_torch_core as core
from webgpu_torch_core.operations.creation.conversion import contiguous_format
from webgpu_torch_core.operations.creation.factories import from_bytes

FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int64", "int32", "uint8")
EVERY = (*FLOATS, *INTEGERS, "bool")
#: assert_close's default relative tolerances, and the type in which the oracle's own rounding is judged
TOLERANCES = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1.3e-6}
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}


class _Namespace(SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


ORACLE = _Namespace(module=torch, F=torch.nn.functional, core=False)
OURS = _Namespace(module=facade, F=facade.nn.functional, core=True)


def kind_of(name: str, device: str) -> torch.dtype | None:
    """Return the oracle's element type, None where the device has no such type."""
    if name == "float64" and device != "cpu":
        return None
    return getattr(torch, name)


def to_ours(value: torch.Tensor, device: str) -> Any:
    """Return a copy with the same storage, strides and offset, so that views stay views of something larger."""
    source = value.detach()
    whole = torch.empty(0, dtype=source.dtype).set_(source.untyped_storage())
    data = whole.view(torch.uint8).numpy().tobytes() if whole.numel() else b""
    flat = from_bytes(data, (whole.numel(),), getattr(core, str(source.dtype).removeprefix("torch.")), device)
    result = flat.as_strided(tuple(source.shape), source.stride(), source.storage_offset()).detach()
    return result.requires_grad_() if value.requires_grad else result


def to_torch(value: Any) -> torch.Tensor:
    """Return a copy as an oracle tensor."""
    kind = getattr(torch, value.dtype.name)
    if value.numel() == 0:
        return torch.empty(tuple(value.shape), dtype=kind)
    plain = value.detach().clone(memory_format=contiguous_format)
    data = bytearray(plain._engine.read(plain._storage.value))
    return torch.frombuffer(data, dtype=kind).reshape(tuple(value.shape))


def compare(actual: Any, expected: Any, exact: Any = None, strides: bool = False, where: str = "") -> None:
    """Check value, shape, element type (and strides) with the oracle's default tolerances.

    ``exact``: what the oracle computes in the next wider type on the same inputs; either will do, and so will anything
    that is no farther from it than the oracle's result.
    """
    if isinstance(expected, tuple | list):
        assert isinstance(actual, tuple | list), f"{where}: {type(actual)} instead of {type(expected)}"
        assert len(actual) == len(expected), f"{where}: {len(actual)} results instead of {len(expected)}"
        for number, each in enumerate(expected):
            compare(actual[number], each, None if exact is None else exact[number], strides, f"{where}[{number}]")
        return
    if not isinstance(expected, torch.Tensor):
        same = actual == expected or (actual != actual and expected != expected)
        assert type(actual) is type(expected) and same, f"{where}: {actual!r} instead of {expected!r}"
        return
    assert isinstance(actual, core.Tensor), f"{where}: {type(actual)} instead of a tensor"
    assert tuple(actual.shape) == tuple(expected.shape), f"{where}: shape {actual.shape} instead of {expected.shape}"
    assert actual.dtype.name == str(expected.dtype).removeprefix("torch."), (
        f"{where}: {actual.dtype} instead of {expected.dtype}"
    )
    if strides:
        assert tuple(actual.stride()) == tuple(expected.stride()), (
            f"{where}: strides {actual.stride()} instead of {expected.stride()}"
        )
    found, wanted = to_torch(actual), expected.detach().resolve_conj()
    if exact is not None and expected.dtype in TOLERANCES:
        rounded = exact.detach().to(expected.dtype)
        near = torch.isclose(found.double(), rounded.double(), TOLERANCES[expected.dtype], 1e-5, equal_nan=True)
        # Where the oracle's own rounding is the larger error, no less accurate is right too.
        error, allowed = (found.double() - exact).abs(), (wanted.double() - exact).abs()
        wanted = torch.where(near, rounded, torch.where(error <= allowed, found, wanted))
    torch.testing.assert_close(found, wanted, equal_nan=True, msg=lambda text: f"{where}: {text}")


def _outputs(result: Any) -> list[Any]:
    return [
        each for each in (result if isinstance(result, tuple | list) else (result,)) if hasattr(each, "requires_grad")
    ]


def _gradients(grad: Callable[..., Any], result: Any, inputs: Sequence[Any], cotangents: list[Any], again: bool) -> Any:
    pairs = [(each, seed) for each, seed in zip(_outputs(result), cotangents, strict=True) if each.requires_grad]
    if not pairs:
        return None
    return grad([each for each, _ in pairs], inputs, [seed for _, seed in pairs], allow_unused=True, create_graph=again)


def run_oracle(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    tracked: list[int],
    second: bool = False,
    seeds: Any = None,
    draw: Callable[..., torch.Tensor] = torch.randn,
) -> Any:
    """Return the oracle's result and gradients; the cotangents are drawn from a fixed seed unless given."""
    leaves = [_leaf(each, number in tracked) for number, each in enumerate(inputs)]
    result = function(ORACLE, *leaves)
    generator = torch.Generator().manual_seed(7)
    seeds = seeds or [
        draw(each.shape, generator=generator).to(each.dtype) if each.is_floating_point() else None
        for each in _outputs(result)
    ]
    wanted = [leaves[number] for number in tracked]
    first = _gradients(torch.autograd.grad, result, wanted, seeds, second) if tracked else None
    twice = None
    if second and first is not None:
        twice = _second(torch.autograd.grad, first, wanted)
    return result, first, twice, seeds


def _second(grad: Callable[..., Any], first: Sequence[Any], wanted: list[Any]) -> Any:
    total = None
    for each in first:
        if each is not None and each.requires_grad:
            part = (each * each).sum()
            total = part if total is None else total + part
    return None if total is None else grad(total, wanted, allow_unused=True)


def _leaf(value: Any, requires_grad: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(requires_grad)


def _widened(values: Sequence[Any]) -> list[Any]:
    return [each.to(WIDER.get(each.dtype, each.dtype)) if isinstance(each, torch.Tensor) else each for each in values]


#: whether something was compared, for every call of check in the running test; conftest.py fails a test without any
ANSWERED: list[bool] = []


def _refuses(function: Callable[..., Any], inputs: Sequence[Any], device: str, kind: type[Exception]) -> bool:
    """Return whether this library refuses inputs, too, with an error of a type."""
    try:
        compared = function(
            OURS, *(to_ours(each, device) if isinstance(each, torch.Tensor) else each for each in inputs)
        )
        [to_torch(each) for each in _outputs(compared)]
    except kind:
        return True
    except Exception:
        return False
    return False


def check(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    device: str,
    *,
    gradient: bool = True,
    second: bool = False,
    strides: bool = False,
    draw: Callable[..., torch.Tensor] = torch.randn,
    where: str = "",
) -> bool:
    """Run ``function(namespace, *inputs)`` on both sides and compare results and gradients.

    ``draw`` makes the cotangents; ``torch.rand``, of one sign, keeps gradients that add many terms from cancelling.

    Returns False where the oracle refuses the inputs. A test in which it refuses all inputs fails, unless it does so with
    a RuntimeError (an element type that an operation does not take), and this library does the same.
    """
    tracked = [
        number
        for number, each in enumerate(inputs)
        if gradient and isinstance(each, torch.Tensor) and each.is_floating_point()
    ]
    try:
        expected, first, twice, seeds = run_oracle(function, inputs, tracked, second, draw=draw)
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError) as refusal:
        ANSWERED.append(isinstance(refusal, RuntimeError) and _refuses(function, inputs, device, type(refusal)))
        return False
    ANSWERED.append(True)
    exact: Any = (None, None, None)
    if any(isinstance(each, torch.Tensor) and each.dtype in WIDER for each in inputs):
        try:
            exact = run_oracle(function, _widened(inputs), tracked, second, _widened(seeds))
        except RuntimeError:
            # The function fixes a type of its own, which does not mix with wider inputs.
            exact = (None, None, None)
    leaves = [
        to_ours(_leaf(each, number in tracked), device) if isinstance(each, torch.Tensor) else each
        for number, each in enumerate(inputs)
    ]
    result = function(OURS, *leaves)
    compare(result, expected, exact[0], strides, f"{where} value")
    if first is None:
        return True
    wanted = [leaves[number] for number in tracked]
    cotangents = [None if each is None else to_ours(each, device) for each in seeds]
    found = _gradients(core.autograd.grad, result, wanted, cotangents, second)
    assert found is not None, f"{where}: no gradient"
    compare(_zeros(found, first), first, exact[1], False, f"{where} gradient")
    if twice is not None:
        compare(
            _zeros(_second(core.autograd.grad, found, wanted), twice),
            twice,
            exact[2],
            False,
            f"{where} second gradient",
        )
    return True


def _zeros(found: Sequence[Any] | None, expected: Sequence[Any]) -> list[Any]:
    """An absent gradient and one of zeros are the same gradient."""
    found = [None] * len(expected) if found is None else list(found)
    for number, (have, want) in enumerate(zip(found, expected, strict=True)):
        if have is None and want is not None and not want.any():
            found[number] = to_ours(want, "cpu")
        elif want is None and have is not None and not to_torch(have).any():
            found[number] = None
    return found


def sample(
    shape: Sequence[int], kind: torch.dtype, seed: int = 0, low: float = -3.0, high: float = 3.0
) -> torch.Tensor:
    """Return a tensor of numbers in a range, from a fixed seed."""
    generator = torch.Generator().manual_seed(seed + 1)
    if kind is torch.bool:
        return torch.rand(tuple(shape), generator=generator) < 0.5
    if not kind.is_floating_point:
        return torch.randint(0 if kind is torch.uint8 else -4, 9, tuple(shape), generator=generator).to(kind)
    return (torch.rand(tuple(shape), generator=generator, dtype=torch.float64) * (high - low) + low).to(kind)


def both_raise(function: Callable[..., Any], inputs: Sequence[Any], device: str, words: str = "") -> None:
    """Check that both sides refuse with the same exception type, and that the message has the key words."""
    try:
        function(ORACLE, *[each.clone() if isinstance(each, torch.Tensor) else each for each in inputs])
    except Exception as error:  # noqa: BLE001 - whatever the oracle raises is the expectation
        expected = error
    else:
        raise AssertionError("the oracle accepts this")
    try:
        function(OURS, *[to_ours(each, device) if isinstance(each, torch.Tensor) else each for each in inputs])
    except Exception as error:  # noqa: BLE001
        assert isinstance(error, type(expected)), (
            f"{type(error).__name__}({error}) instead of {type(expected).__name__}({expected})"
        )
        assert words in str(expected), f"the oracle says: {expected}"
        assert words in str(error), f"message {str(error)!r} lacks {words!r}"
        return
    raise AssertionError(f"accepted; the oracle raises {type(expected).__name__}: {expected}")
