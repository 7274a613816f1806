"""What PyTorch computes, recorded, and whether this library computes it, too: the conformance page's program.

The file beside this one is written by ``scripts/record_expectations.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from webgpu_torch_core.backend.interface import CannotWaitError

if TYPE_CHECKING:
    from webgpu_torch_core import Tensor

#: relative and absolute tolerance by element type, those of ``torch.testing.assert_close``
TOLERANCES = {"float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}
FILE = Path(__file__).with_name("expectations.json")


class Recorded(NamedTuple):
    """A tensor in the file."""

    kind: str
    shape: list[int]
    numbers: list[float | str]


class Expectation(NamedTuple):
    """An expression over named inputs, and what PyTorch's results are."""

    operation: str
    kind: str
    text: str
    results: list[Recorded]


class Outcome(NamedTuple):
    """What came of an expectation: ``problem`` is empty where it was met; ``waits`` where it reads in the middle of the
    expression, which the place of this program does not allow."""

    expectation: Expectation
    problem: str
    waits: bool = False


class Expectations:
    """The recorded expectations, evaluated with a ``torch`` on its default device."""

    def __init__(self, torch: ModuleType) -> None:
        content = json.loads(FILE.read_text(encoding="utf-8"))
        self.torch = torch
        #: the version of PyTorch that was asked
        self.version: str = content["torch"]
        self.all = [
            Expectation(operation, kind, text, [Recorded(*each) for each in results])
            for operation, kind, text, results in content["cases"]
        ]
        self._inputs: dict[str, dict[str, list[object]]] = content["inputs"]
        self._positions: dict[str, list[object]] = content["positions"]

    def operations(self) -> list[str]:
        """Return the names of all operations, in order."""
        return sorted({each.operation for each in self.all})

    def _tensor(self, recorded: Sequence[object]) -> Tensor:
        kind, shape, numbers = recorded
        values = [float(each) if isinstance(each, str) else each for each in numbers]  # type: ignore[union-attr]
        return self.torch.tensor(values, dtype=getattr(self.torch, str(kind))).reshape(shape)

    def scope(self, kind: str) -> dict[str, object]:
        """Return the names that expressions of an element type use."""
        named = {**self._inputs[kind], **self._positions}
        return {
            "torch": self.torch,
            "F": self.torch.nn.functional,
            "grad": self._gradient,
            "kind": getattr(self.torch, kind),
            **{name: self._tensor(each) for name, each in named.items()},
        }

    def _gradient(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor | None:
        """Return the gradient of a function's result, each element weighted by its position."""
        leaf = x.detach().clone().requires_grad_()
        result = function(leaf)
        weights = self.torch.arange(1, result.numel() + 1).reshape(result.shape).to(result.dtype)
        (result * weights).sum().backward()
        return leaf.grad

    async def run(self, chosen: Sequence[Expectation] | None = None) -> AsyncIterator[Outcome]:
        """Evaluate expectations, all of them unless some are given, and yield what came of each."""
        scopes: dict[str, dict[str, object]] = {}
        for each in self.all if chosen is None else chosen:
            if each.kind not in scopes:
                scopes[each.kind] = self.scope(each.kind)
            try:
                result = eval(each.text, dict(scopes[each.kind]))
                found = [await one.fetch() for one in (result if isinstance(result, tuple | list) else [result])]
                yield Outcome(each, mismatch(found, each.results))
            except CannotWaitError:
                yield Outcome(each, "", waits=True)
            except Exception as error:
                # The page goes on and shows it: any exception is an expectation that was not met.
                yield Outcome(each, f"{type(error).__name__}: {error}")


def mismatch(found: Sequence[Tensor], expected: Sequence[Recorded]) -> str:
    """Return how results differ from recorded ones in number, type, shape or value; empty where they do not."""
    if len(found) != len(expected):
        return f"{len(found)} results where PyTorch has {len(expected)}"
    for tensor, recorded in zip(found, expected, strict=True):
        kind = str(tensor.dtype).removeprefix("torch.")
        if kind != recorded.kind:
            return f"the type is {kind}, PyTorch's {recorded.kind}"
        if list(tensor.shape) != recorded.shape:
            return f"the shape is {list(tensor.shape)}, PyTorch's {recorded.shape}"
        numbers = tensor.flatten().tolist()
        for at, (mine, theirs) in enumerate(zip(numbers, recorded.numbers, strict=True)):
            if not _close(mine, float(theirs) if isinstance(theirs, str) else theirs, recorded.kind):
                return f"element {at} is {mine}, PyTorch's {theirs}"
    return ""


def _close(mine: float, theirs: float, kind: str) -> bool:
    if kind not in TOLERANCES or not math.isfinite(theirs):
        return mine == theirs or (mine != mine and theirs != theirs)
    relative, absolute = TOLERANCES[kind]
    return abs(mine - theirs) <= absolute + relative * abs(theirs)
