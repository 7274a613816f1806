"""What all conformance tests share: the device under test and the comparison with the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from webgpu_torch_core.backend.interface import Device
from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.ir.kernels import Kernel

from .running import assert_close, interpret, run_kernel


class Conformance:
    """Subclasses say which device is tested by defining :meth:`device`."""

    #: how many elements the tests of large domains use; a slow device may choose fewer
    large_elements = 140_000

    def device(self) -> Device:
        """Return the opened device under test; called once per class."""
        raise NotImplementedError(f"{type(self).__name__} must define device(self), returning an opened Device")

    @property
    def target(self) -> Device:
        """The device under test, opened on first use."""
        found = type(self).__dict__.get("_opened_device")
        if found is None:
            found = self.device()
            type(self)._opened_device = found  # type: ignore[attr-defined]
        return found

    def needs(self, *kinds: dtype) -> None:
        """Skip the test where the device lacks an element type."""
        missing = [kind.name for kind in kinds if kind not in self.target.dtypes and kind.name != "uint32"]
        if missing:
            pytest.skip(f"{self.target.name} has no {', '.join(missing)}")

    def check(
        self, kernel: Kernel, inputs: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]] | None = None,
        parameters: Sequence[float | int] = (), **tolerances: float,
    ) -> list[list[Any]]:  # fmt: skip
        """Run a kernel and compare it with ``expected``, and with the interpreter unless that would take long."""
        self.needs(*(each.dtype for each in (*kernel.operands, *kernel.outputs)))
        actual = run_kernel(self.target, kernel, inputs, parameters)
        if expected is not None:
            self.compare(kernel, actual, expected, "the written-out result", **tolerances)
        if expected is None or kernel.elements() <= 4096:
            self.compare(kernel, actual, interpret(kernel, inputs, parameters), "the interpreter", **tolerances)
        return actual

    def compare(
        self,
        kernel: Kernel,
        actual: Sequence[Sequence[Any]],
        expected: Sequence[Sequence[Any]],
        origin: str,
        **tolerances: float,
    ) -> None:
        """Raise AssertionError where an output differs."""
        for index, (output, ours, wanted) in enumerate(zip(kernel.outputs, actual, expected, strict=True)):
            what = f"{kernel.name} on {self.target.name}, output {index} against {origin}"
            assert_close(ours, wanted, output.dtype, what, **tolerances)
