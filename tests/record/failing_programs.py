"""Programs of in-place updates, views and copies, written twice: on a device whose kernels fail, and where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import webgpu_torch as torch
from hypothesis import strategies
from webgpu_torch_core.record.devices import canonical_device, engine_for

SHAPE = (6, 5)
#: statements over tensors ``a`` and ``b``; each returns a new tensor or writes into ``a``
STATEMENTS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "product": lambda a, b: a @ b.T @ b * 0.1,
    "softmax": lambda a, b: torch.softmax(a, 1) + b,
    "running": lambda a, b: torch.cumsum(a, 0) * 0.5 - b,
    "sorted": lambda a, b: torch.sort(a, 1).values + b,
    "add_": lambda a, b: a.add_(b, alpha=0.5),
    "mul_": lambda a, b: a.mul_(1.25),
    "rows_": lambda a, b: a[1:3].add_(b[2:4].clone()),
    "column_": lambda a, b: a[:, ::2].mul_(b[:, ::2]),
    "transposed_": lambda a, b: a.t()[1].sub_(b.t()[0]),
    "copy_": lambda a, b: a.copy_(b * 2),
    "index_": lambda a, b: a.index_add_(0, torch.tensor([1, 4], device=a.device), b[:2].clone()),
    "put_": lambda a, b: a.__setitem__(a > 0.5, 0.25),
    "clone": lambda a, b: a.clone(),
    # What the tests let fail.
    "lgamma": lambda a, b: torch.lgamma(a.abs() + 1.5),
    "lgamma_": lambda a, b: a.add_(torch.lgamma(b.abs() + 1.5)),
}
#: statements that write all of ``a`` without reading it
OVERWRITES = ("copy_",)

#: (statement, number of ``a``, number of ``b``); "read" reads ``a``, "forget" drops it and makes it a view of ``b``
programs = strategies.lists(
    strategies.tuples(
        strategies.sampled_from([*STATEMENTS, "read", "forget"]), strategies.integers(0, 3), strategies.integers(0, 3)
    ),
    min_size=2,
    max_size=14,
)


class Fault(Exception):
    """What a device of these tests raises."""


class Run:
    """A program's tensors. ``tainted`` numbers those whose values depend on a statement that fails."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.tensors = [torch.randn(SHAPE, device=device) for _ in range(4)]
        for each in self.tensors:
            each.tolist()
        self.tainted: set[int] = set()
        #: numbers of tensors that share memory
        self.shares = [{number} for number in range(4)]

    def statement(self, name: str, first: int, second: int) -> None:
        """Do one statement; what fails in it has no effect."""
        a, b = self.tensors[first], self.tensors[second]
        if name == "read":
            a.tolist()
        elif name == "forget":
            self._replace(first, b[:], self.shares[second])
        else:
            found = STATEMENTS[name](a, b)
            if name.endswith("_"):
                self._taint(first, second, name)
            else:
                before = self.tainted & {first, second}
                self._replace(first, found, None)
                if before or name == "lgamma":
                    self.tainted.add(first)

    def _taint(self, first: int, second: int, name: str) -> None:
        if second in self.tainted or name == "lgamma_":
            self.tainted |= self.shares[first]
        elif name in OVERWRITES:
            self.tainted -= self.shares[first]

    def _replace(self, number: int, tensor: Any, shares: set[int] | None) -> None:
        self.tensors[number] = tensor
        if shares is self.shares[number]:
            return
        self.shares[number].discard(number)
        self.shares[number] = {number} if shares is None else shares
        self.shares[number].add(number)
        self.tainted.discard(number)
        if shares is not None and self.tainted & shares:
            self.tainted.add(number)


@contextmanager
def failing_kernel(device: str, number: int) -> Iterator[list[int]]:
    """Let the kernel of the device that runs as the ``number``-th raise, once; on webgpu the submit of its own that it has."""
    found: Any = engine_for(canonical_device(device)).device
    count = [0]

    def counted(run: Callable[..., Any], *arguments: Any) -> Any:
        count[0] += 1
        if count[0] == number:
            raise Fault(f"kernel number {number}")
        return run(*arguments)

    if device == "cpu":
        original = found._prepared
        found._prepared = lambda plan: [
            (kernel and partial(counted, kernel), *rest) for kernel, *rest in original(plan)
        ]
        try:
            yield count
        finally:
            del found._prepared
    else:
        found.gpu.submit = partial(counted, found.gpu.submit)
        try:
            yield count
        finally:
            del found.gpu.submit


@contextmanager
def failing_operation(device: str, name: str) -> Iterator[None]:
    """Let every kernel with this name among its parts raise as long as this is open."""
    found: Any = engine_for(canonical_device(device)).device

    def fails(*_: Any) -> None:
        raise Fault(f"no {name} today")

    def function(original: Callable[..., Any], kernel: Any) -> Any:
        return fails if name in repr(kernel) else original(kernel)

    def compiled(original: Callable[..., Any], kernels: Any, *rest: Any) -> Any:
        kernels = list(kernels)
        if any(name in repr(each) for each in kernels):
            fails()
        return original(kernels, *rest)

    owner, method, replacement = (
        (found, "_function", function) if device == "cpu" else (found.compiler, "compile", compiled)
    )
    engine_for(canonical_device(device)).plans.clear()
    setattr(owner, method, partial(replacement, getattr(owner, method)))
    try:
        yield
    finally:
        delattr(owner, method)
        engine_for(canonical_device(device)).plans.clear()


__all__ = ["STATEMENTS", "Fault", "Run", "failing_kernel", "failing_operation", "programs"]
