"""Random programs of operations, views, writes and subscripts, run on PyTorch and on this library side by side.

After each step shape, type, strides, offset and whether a gradient is required are compared, and the elements either at once or
when the program is over, so that what is recorded may be merged. Where the oracle refuses a step, this library has to refuse
it with an exception of that type. A program of a leaf that requires a gradient ends with a backward pass.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import torch
from ops_oracle import ORACLE, OURS, TOLERANCES, to_ours, to_torch
from program_operations import OPERATIONS, WRITERS, Convert, largest, placed, unique, zeros_of_both_signs
from view_programs import (
    REFUSED,
    TRACKED,
    VIEWS,
    Difference,
    arguments,
    convert,
    describe,
    numbers,
    overlapping,
    positions,
    reinterpreted,
    repeated,
    strided,
    subscript,
)
from view_writes import WRITES

FLOATS = ("float32", "float32", "float64", "float16", "bfloat16")
REAL = (*FLOATS, "int64", "int64", "bool", "uint8", "int32", "int8", "int16")
COMPLEX = ("complex64", "complex64", "complex128", "float32", "float64", "int64", "bool")
Step = Callable[[Any, Any, Convert], Any]
#: what programs leave out or tell apart, and why; the page "Numerics" says so, too
LEFT_OUT = {
    "the product of a complex and a real matrix": "PyTorch refuses it; here there is one",
    "float16 beside complex numbers": "PyTorch has complex32, but few of its operations take it",
    "sums of complex numbers with an infinite part": (
        "PyTorch multiplies by 1 + 0i before it adds, which leaves NaN in the other part, or in both"
    ),
    "products of float16 that leave its range on the way": "PyTorch rounds each partial product to float16; here the result rounds",
    "the sign and the bits of NaN": "IEEE 754 leaves them open, and so do both libraries",
    "which of several equal elements `topk` and `kthvalue` take, and `unique` of several NaN": "promised nowhere",
    "`median` and `nanmedian` of elements that share memory": "PyTorch reads memory that is not theirs",
    "`take_along_dim` at positions outside": "PyTorch takes what is left of a division; here they are refused",
    "`as_strided` past what `unique` found": "PyTorch leaves room behind it that nobody has written",
    "`var` and `std` over an empty tuple of dimensions": "PyTorch's gradient divides by zero",
    "extrema of a single complex number or of none": "PyTorch takes them, and refuses two",
    "which of two zeros of different signs is the larger": "IEEE 754 leaves it open; PyTorch's depends on the vector unit and the order",
    "complex powers of or to numbers beyond 16": (
        "the exponent multiplies the rounding of a logarithm: both libraries lose digits, each its own"
    ),
    "`mode` along more than 16 elements, or with NaN": "which of equal elements it finds depends on how PyTorch sorts",
    "which of several equal elements beyond 16 the gradient of `msort` goes to": "PyTorch's sort is not stable there",
    "the gradient of `clamp` by a longer limit": "PyTorch's fails when it is computed",
    "an operand that was overwritten before the backward pass": (
        "what a gradient needs differs: PyTorch may refuse where this library does not"
    ),
    "what a refused write at positions outside has written by then": "promised nowhere",
    "what is unique of elements that the two libraries round apart": (
        "PyTorch computes the elements behind the last whole vector with other functions, so that equal ones may come out unequal"
    ),
    "`gelu` of infinite numbers": "PyTorch's library for the CPU has NaN for them on some processors, of more than one element",
    "gradients at NaN of `relu6`, `hardtanh` and `elu`": "PyTorch's depend on whether the processor's vector unit computes them",
    "the sign of a zero that a sum is, on GPUs": "drivers leave out that a sum begins with 0",
    "subnormal numbers, on GPUs": "drivers may take them for zero",
    "norms whose powers leave the type's range": "GPUs' drivers cancel a root against the power, and the norm is finite",
    "`var` and `std`, on GPUs, of float32 numbers whose squares leave its range": (
        "PyTorch adds them in float64 on the CPU, and in float32, as here, on GPUs"
    ),
}


class Inexact(Exception):
    """The elements differ by rounding: what follows may differ without being wrong."""


class Absent(Inexact):
    """PyTorch goes on with a type that does not exist here: complex numbers of 16-bit parts; on a device, what it has none of."""


def signs_differ(theirs: torch.Tensor, ours: Any) -> bool:
    """Return whether one tensor has -0 where the other has 0."""
    if not theirs.is_floating_point():
        return False
    wanted, found = theirs.detach(), to_torch(ours)
    return bool(((wanted == 0) & (found == 0) & (wanted.signbit() != found.signbit())).any())


class OperationProgram:
    """One random program and its pool of tensors on both sides."""

    def __init__(self, seed: int, place: str, kinds: tuple[str, ...] = REAL, tracked: bool = False) -> None:
        self.draw = random.Random(seed)
        self.draw.kinds, self.draw.place = kinds, place  # type: ignore[attr-defined]
        self.place, self.tracked = place, tracked
        self.log: list[str] = [f"seed {seed}"]
        self.pool: list[tuple[torch.Tensor, Any]] = []
        self.leaves: list[tuple[torch.Tensor, Any]] = []
        self.refused = self.inexact = 0
        self.at_once = self.draw.random() < 0.5
        for _ in range(self.draw.choice((1, 1, 2))):
            self.begin()

    def begin(self) -> None:
        """Add a new tensor to the pool."""
        kind = getattr(torch, self.draw.choice(self.draw.kinds))  # type: ignore[attr-defined]
        shape = [self.draw.choice((0, 1, 2, 2, 3, 3, 4)) for _ in range(self.draw.choice((0, 1, 1, 2, 2, 2, 3)))]
        start = numbers(self.draw, shape, kind).clone()
        if kind.is_floating_point and self.draw.random() < 0.3:
            start = (start - 4) / 2
        ours = to_ours(start, self.place)
        self.log.append(f"tensor {start.dtype} {tuple(start.shape)} {start.tolist()}")
        if self.tracked and (kind.is_floating_point or kind.is_complex):
            self.leaves.append((start.requires_grad_(), ours.requires_grad_()))
            if self.draw.random() < 0.7:
                start, ours = start * 1, ours * 1
        self.pool.append((start, ours))

    def run(self, steps: int) -> None:
        """Take random steps, then compare all that is in the pool and the gradients."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for _ in range(steps):
                    self.step()
                for number, (theirs, ours) in enumerate(self.pool):
                    self.compare(theirs, ours, f"tensor {number}")
                if self.tracked:
                    self.backward()
            except Inexact:
                self.inexact = 1

    def step(self) -> None:
        choice = self.draw.random()
        if choice < 0.15:
            self.view()
        elif choice < 0.27:
            self.write()
        elif choice < 0.34:
            self.write_subscript()
        elif choice < 0.42:
            self.pair()
        else:
            self.operation()

    def pick(self) -> tuple[torch.Tensor, Any]:
        return self.pool[-1] if self.draw.random() < 0.6 else self.draw.choice(self.pool)

    def operation(self) -> None:
        theirs, ours = self.pick()
        make = self.draw.choice(OPERATIONS)
        if self.tracked and make in (largest, placed) or make in WRITERS and not theirs.numel():
            # Which of equal elements is taken is promised nowhere, but gradients tell; into nothing PyTorch writes as it likes.
            return
        step = make(self.draw, theirs)
        if make is unique:
            # Only of equal elements: how many there are is part of the result's shape.
            self.compare(theirs, ours, "operand")
        self.attempt(f"{make.__name__} of {describe(theirs)} {arguments(step)}", step, theirs, ours)

    def view(self) -> None:
        theirs, ours = self.pick()
        make = self.draw.choice(TRACKED if self.tracked else VIEWS)
        step = make(self.draw, theirs)
        if make is reinterpreted and theirs.isnan().any():
            # Which of the bit patterns that are NaN a computation leaves is promised nowhere.
            return
        if make is strided and theirs.untyped_storage().nbytes() > ours.untyped_storage().nbytes():
            # Behind what is unique PyTorch leaves room that nobody has written.
            return
        title = f"{make.__name__} of {describe(theirs)} {arguments(step)}"
        self.attempt(title, lambda t, y, c: step(t, y), theirs, ours)

    def write(self) -> None:
        """Write into a tensor of the pool by a method."""
        theirs, ours = self.pick()
        name, make = self.draw.choice(WRITES)
        if overlapping(theirs):
            return
        step = make(self.draw, theirs)
        title = f"{name} of {describe(theirs)} {arguments(step)}"
        self.attempt(title, lambda t, y, c: step(t, y, self.place), theirs, ours)

    def write_subscript(self) -> None:
        """Assign a number or a small tensor to a subscript."""
        theirs, ours = self.pick()
        item = subscript(self.draw, theirs)
        if len(set(positions(theirs))) < theirs.numel() or repeated(theirs, item):
            return
        value = numbers(self.draw, [self.draw.choice((1, 1, 2))], theirs.dtype)
        value = value if self.draw.random() < 0.5 else self.draw.choice((0, 1, 7, True, 2.0))

        def step(t: Any, y: Any, c: Convert) -> None:
            y[c(item)] = c(value)

        self.attempt(f"{describe(theirs)}[{item}] = {value}", step, theirs, ours)

    def pair(self) -> None:
        """Compute with, or write, two tensors of the pool."""
        theirs, ours = self.pick()
        other, mine = self.draw.choice(self.pool)
        name = self.draw.choice(("add", "mul", "sub", "maximum", "where", "matmul", "cat", "add_", "mul_", "copy_"))
        if name == "matmul" and theirs.dtype != other.dtype:
            # Of a complex and a real matrix there is a product here.
            name = "cat"
        if name == "maximum" and zeros_of_both_signs(theirs, other):
            name = "add"
        if name.endswith("_") and (len(set(positions(theirs))) < theirs.numel() or shares(theirs, other)):
            return

        def step(t: Any, y: Any, c: Convert) -> Any:
            second = other if t is ORACLE else mine
            if name == "cat":
                return t.cat([y, second])
            if name == "where":
                return t.where(second > 2, y, second)
            return getattr(y, name)(second)

        self.attempt(f"{name} of {describe(theirs)} and {describe(other)}", step, theirs, ours)

    def attempt(self, title: str, step: Step, theirs: Any, ours: Any) -> None:
        """Take a step on both sides and compare what comes out."""
        self.log.append(title)
        whole = torch.empty(0, dtype=torch.uint8).set_(theirs.detach().untyped_storage())
        before = whole.clone()
        try:
            expected = step(ORACLE, theirs, lambda value: value)
        except REFUSED as error:
            # The oracle may have written a part before it noticed.
            whole.copy_(before)
            self.expect_refusal(step, ours, error)
            return
        try:
            result = step(OURS, ours, self.ours)
            if self.at_once and hasattr(result, "tolist"):
                result.tolist()
        except Exception as error:
            if isinstance(error, TypeError) and "device doesn't support" in str(error):
                raise Absent from error
            raise Difference(self.story(f"raises {type(error).__name__}: {error}")) from error
        results = zip(expected, result, strict=True) if isinstance(expected, tuple) else [(expected, result)]
        for wanted, found in results:
            if self.place != "cpu" and isinstance(wanted, torch.Tensor) and subnormal(wanted):
                raise Inexact
            if isinstance(wanted, torch.Tensor) and wanted.dtype is torch.complex32 and found.dtype is OURS.complex64:
                raise Absent
            if not isinstance(wanted, torch.Tensor):
                if wanted is not None and type(wanted) is type(found) and wanted != found:
                    raise Difference(self.story(f"{found} instead of {wanted}"))
                continue
            self.compare_layout(wanted, found)
            if self.at_once:
                self.compare(wanted, found, "result")
            self.pool.append((wanted, found))
        if self.at_once:
            self.compare(theirs, ours, "operand")

    def ours(self, value: Any) -> Any:
        return convert(OURS, value, self.place)

    def expect_refusal(self, step: Step, ours: Any, error: Exception) -> None:
        self.refused += 1
        if "ComplexHalf" in str(error):
            raise Absent
        try:
            result = step(OURS, ours, self.ours)
            # On a device, positions are checked when a result is next read.
            for each in (*(result if isinstance(result, tuple) else (result,)), ours):
                if hasattr(each, "tolist"):
                    to_torch(each)
        except Exception as mine:
            if isinstance(mine, type(error)):
                if "out of bounds" in str(error) or "out of range" in str(error):
                    # A write that met a position outside may have written what else there was.
                    raise Inexact from mine
                return
            if isinstance(mine, TypeError) and "device doesn't support" in str(mine):
                raise Absent from mine
            found = f"{type(mine).__name__}({mine})"
        else:
            found = "accepted"
        raise Difference(self.story(f"{found} instead of {type(error).__name__}: {str(error)[:200]}"))

    def compare_layout(self, theirs: torch.Tensor, ours: Any) -> None:
        """Compare all that is known of a tensor without its elements."""
        facts = [
            {
                "shape": tuple(each.shape),
                "dtype": str(each.dtype),
                # Those of single elements and of nothing say nothing.
                "strides": [s for s, n in zip(each.stride(), theirs.shape) if n != 1] if theirs.numel() else None,
                "offset": each.storage_offset() if theirs.numel() else None,
                "is a view": each._is_view(),
                "requires grad": each.requires_grad,
                "is a leaf": each.is_leaf,
            }
            for each in (theirs, ours)
        ]
        if facts[0] != facts[1]:
            wrong = {key: (facts[1][key], facts[0][key]) for key in facts[0] if facts[0][key] != facts[1][key]}
            raise Difference(self.story(f"(found, expected) {wrong}"))

    def compare(self, theirs: torch.Tensor, ours: Any, what: str) -> None:
        """Compare elements: bit for bit, or within the tolerance of the type, which ends the comparison."""
        self.compare_layout(theirs, ours)
        found, wanted = to_torch(ours), theirs.detach().resolve_conj().contiguous()
        if torch.equal(found, wanted) or torch.allclose(found, wanted, rtol=0, atol=0, equal_nan=True):
            return
        if wanted.is_complex():
            # PyTorch multiplies by one before it adds: of an infinite number that leaves NaN in the other part, or in both.
            endless = torch.view_as_real(found).isinf().any(-1) & ~torch.view_as_real(wanted).isfinite().all(-1)
            found, wanted = found.masked_fill(endless, 0), wanted.masked_fill(endless, 0)
        tolerance = 8 * TOLERANCES.get(wanted.dtype, 1.3e-6)
        if (wanted.is_floating_point() or wanted.is_complex()) and torch.allclose(
            found, wanted, tolerance, tolerance, equal_nan=True
        ):
            raise Inexact
        if self.place != "cpu" and any(signs_differ(*pair) for pair in self.pool):
            raise Inexact
        raise Difference(self.story(f"{what}: {found.tolist()} instead of {wanted.tolist()}"))

    def backward(self) -> None:
        """Compare the gradients of a weighted sum of what the pool holds."""
        outcomes: list[Any] = []
        for side, library in enumerate((ORACLE, OURS)):
            try:
                total = None
                for pair in self.pool:
                    each = pair[side]
                    if pair[0].requires_grad:
                        weights = torch.arange(1.0, pair[0].numel() + 1).reshape(pair[0].shape)
                        part = (each * (weights if side == 0 else self.ours(weights))).abs().sum()
                        total = part if total is None else total + part
                if total is None:
                    return
                total.backward()
                outcomes.append(None)
            except Exception as error:
                outcomes.append(error)
        self.log.append("backward")
        known = ("modified by an inplace operation", "doesn't match the broadcast shape")
        if outcomes[1] is None and any(each in str(outcomes[0]) for each in known):
            # PyTorch has saved what it needs for the gradient, and this library something else; and its gradient of clamp
            # fails where a limit is longer than what is limited.
            return
        if any(outcomes):
            if outcomes[0] is None or not isinstance(outcomes[1], type(outcomes[0])):
                raise Difference(self.story(f"{outcomes[1]!r} instead of {outcomes[0]!r}"))
            return
        for number, (theirs, ours) in enumerate(self.leaves):
            if (theirs.grad is None) != (ours.grad is None):
                raise Difference(self.story(f"gradient {ours.grad} instead of {theirs.grad}"))
            if theirs.grad is not None:
                self.compare(theirs.grad, ours.grad, f"gradient {number}")

    def story(self, end: str) -> str:
        return "\n  ".join([*self.log, end])


def subnormal(x: torch.Tensor) -> bool:
    """Return whether there are subnormal numbers."""
    numbers = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
    if not numbers.is_floating_point():
        return False
    return bool(((numbers != 0) & (numbers.abs() < torch.finfo(numbers.dtype).smallest_normal)).any())


def shares(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Return whether two tensors lie in one memory."""
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
