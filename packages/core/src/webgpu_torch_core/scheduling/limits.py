"""What one kernel may become on a device: how much it binds, and how long its text gets."""

from __future__ import annotations

from collections.abc import Iterable

from ..backend.interface import Device
from ..ir.expression import Expression, topological
from ..ir.kernels import Kernel
from .domain import schedule_cache


class Limits:
    """A device's limits, in the form in which the scheduler asks for them; one object for each device.

    Attributes:
        bindings: most buffers one kernel may bind.
        binding_bytes: what one binding reaches of a buffer; a longer one counts as several.
        length: how long a fused kernel may be: compilers take more than proportionally longer for long texts.
        places: whether kernels may store at computed places.
    """

    __slots__ = ("_device", "binding_bytes", "bindings", "length", "places")

    def __init__(self, device: Device) -> None:
        self.bindings = device.maximum_bindings
        self.binding_bytes = device.binding_bytes
        self.length = device.kernel_length
        self.places = device.places
        self._device = device

    def length_of(self, roots: Iterable[Expression]) -> int:
        """Return the length of expressions, each step that they share counted once."""
        step_length = self._device.step_length
        return sum([step_length(node.step, node.arguments[-1].dtype) for node in topological(*roots) if node.arguments])

    def gains(self, kernel: Kernel) -> bool:
        """Return whether the device should run a kernel of a form that not every device has."""
        return self._device.gains(kernel)

    def fits(self, kernel: Kernel) -> bool:
        """Return whether a fused kernel is short enough."""
        return kernel_length(self, kernel) <= self.length


@schedule_cache
def kernel_length(limits: Limits, kernel: Kernel) -> int:
    """Return the length of all that a kernel computes."""
    roots = tuple(kernel.expressions())
    return value_length(limits, roots[0]) if len(roots) == 1 else limits.length_of(roots)


@schedule_cache
def value_length(limits: Limits, value: Expression) -> int:
    """Return the length of one expression."""
    return limits.length_of((value,))
