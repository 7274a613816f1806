"""Random counts: Poisson and binomial numbers."""

from __future__ import annotations

from typing import Any

from ...dispatch.registry import operation
from ...ir.layouts import broadcast_shapes
from ...random_streams.streams import MersenneTwister
from ...record.devices import engine_for, host_device, on_host
from ...tensors.tensor import Tensor
from ..common import attach, require_tensor, type_title
from ..creation.factories import from_bytes
from ..creation.reading import read_bytes
from ..without_derivatives import attach_refusal
from .draws import source_generator
from .generator import Generator


@operation("random", method=False)
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Numbers of events with the expectations in ``input``, in its shape and type; the gradient is zero.

    On the CPU these are PyTorch's numbers. Other devices read the rates back: the draws are made on the host.

    Raises:
        RuntimeError: a negative rate, or a type that is not floating-point.
    """
    require_tensor("poisson", "input", 1, input)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"poisson_cpu" not implemented for {input.dtype!r}')
    result = _drawn("poisson", input, generator, input, None)
    return attach(result, "PoissonBackward0", (input,), lambda grad: grad.new_zeros(grad.shape))


@operation("random", method=False)
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Numbers of successes in ``count`` trials of probability ``prob`` each, broadcast; the gradient is zero.

    On the CPU these are PyTorch's numbers. Other devices read the arguments back: the draws are made on the host.

    Raises:
        RuntimeError: types that differ or are not floating-point.
        NotImplementedError: 16-bit numbers.
    """
    require_tensor("binomial", "count", 1, count)
    require_tensor("binomial", "prob", 2, prob)
    if count.dtype is not prob.dtype or not count.dtype.is_floating_point:
        raise RuntimeError(
            f"binomial only supports floating-point dtypes for count and prob, the same for both, got {count.dtype!r} and "
            f"{prob.dtype!r}"
        )
    if count.dtype.itemsize < 4:
        raise NotImplementedError(f"\"binomial_cpu\" not implemented for '{type_title(count)}'")
    shape = broadcast_shapes(count._layout.shape, prob._layout.shape)
    trials, chances = (each.detach().expand(shape) for each in (count, prob))
    result = _drawn("binomial", count, generator, trials, read_bytes(chances))
    return attach_refusal(result, "binomial", (count, prob))


def _drawn(kind: str, input: Tensor, generator: Generator | None, first: Tensor, second: bytearray | None) -> Tensor:
    """Return what the host draws by the elements of a tensor, in its shape and on its device."""
    host = engine_for(host_device()).device
    data = host.draw(kind, _stream(input, generator), first.numel(), first.dtype, read_bytes(first), second)
    return from_bytes(data, tuple(first._layout.shape), first.dtype, first.device)


def _stream(input: Tensor, generator: Generator | None) -> Any:
    if on_host(input.device):
        return source_generator(generator, input.device).host_stream()
    # A stream of its own for this draw, told by the device's seed and how many draws there were.
    seed, offset = source_generator(generator, input.device).next_draw()
    return MersenneTwister((seed + 0x9E3779B97F4A7C15 * (int(offset) + 1)) & 0xFFFFFFFFFFFFFFFF)
