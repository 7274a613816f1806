"""Random numbers: PyTorch's CPU streams on the CPU, counter-based Threefry on other devices."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir import expression as ir
from ...ir.dtypes import FLOAT8, compute_dtype, dtype, float32, int32, int64, uint32
from ...ir.kernels import Output, Pointwise, Store
from ...ir.layouts import contiguous_layout, number_of_elements
from ...ir.scalar import threefry
from ...random_streams.distributions import require_distribution
from ...record.context import context
from ...record.devices import canonical_device, device, engine_for, on_host
from ...tensors.tensor import Tensor, empty_tensor
from ..common import (
    as_leaf,
    attach,
    kernel_cache,
    laid_out,
    one_or_named,
    one_tuple_of_sizes,
    record_on,
    require_layout,
    sizes_from,
    type_title,
)
from ..complex.interleaving import complex_alias
from ..creation.factories import as_dtype, asked, empty_like, place_of
from ..creation.reading import read_bytes
from ..elementwise.call import default_float
from ..outputs import into
from ..value_checks import check_deviations, check_probabilities, check_weights
from .generator import Generator, default_generator
from .wide_integers import wide_integers

if TYPE_CHECKING:
    from ...tensors.memory_formats import memory_format
    from ...tensors.type_aliases import DeviceLike, Number


def _position() -> ir.Expression:
    """Return the number of this element."""
    return ir.cast(ir.coordinate(0), uint32)


def _word(number: ir.Expression) -> ir.Expression:
    """Return a word of the Threefry block that four elements share: counter (position / 4), key (seed, offset)."""
    seed, seed_high, offset, offset_high = (ir.parameter(each, uint32) for each in range(4))
    zero = ir.constant(0, uint32)
    return threefry((_position() >> 2, zero, zero, zero), (seed, seed_high, offset, offset_high), number)


def _unit(word: ir.Expression) -> ir.Expression:
    """Return a word as a float in [0, 1): its top 24 bits."""
    return ir.cast(word >> 8, float32) * (2.0**-24)


def _positive_unit(word: ir.Expression) -> ir.Expression:
    """Return a word as a float in (0, 1]: all its bits, as far as a float has them, so that small numbers are fine ones."""
    return ir.cast(word, float32) * (2.0**-32) + 2.0**-33


def _standard_normal() -> ir.Expression:
    """Return a normal number by Box and Muller's transform: two elements share a radius, one has its cosine, one its sine."""
    pair = _position() & 2
    radius = ir.apply("sqrt", ir.apply("log", _positive_unit(_word(pair))) * -2.0)
    turn = _word(pair + 1)
    # In quarters of a turn, from -1 to 1: there the cosine is not negative. What the float does not keep of the word is its sign.
    angle = ir.cast(ir.cast(turn, int32), float32) * (2.0**-31)
    square = angle * angle
    cosine = (1.0 - angle) * (1.0 + angle) * _horner(square, _COSINE)
    signed = ir.select(ir.binary("equal", turn & 1, 0), cosine, -cosine)
    return radius * ir.select(ir.binary("equal", _position() & 1, 0), signed, angle * _horner(square, _SINE))


def _horner(value: ir.Expression, coefficients: tuple[float, ...]) -> ir.Expression:
    """Return a polynomial, given by its coefficients, the constant first."""
    *lower, last = coefficients
    result = value * last + lower.pop()
    for each in reversed(lower):
        result = result * value + each
    return result


#: sin(pi x / 2) / x and cos(pi x / 2) / (1 - x^2) as polynomials of x^2 for x from -1 to 1, fitted for this project
_SINE = (1.5707963705062866, -0.645963728427887, 0.07968968152999878, -0.004673766437917948, 0.00015148513193707913)
_COSINE = (1.0, -0.23370049893856049, 0.019968589767813683, -0.0008935100631788373, 2.3588054318679497e-05)


@kernel_cache
def draw_kernel(kind: str, count: int, result: dtype) -> Pointwise:
    """Return the kernel drawing ``count`` numbers: uniform, normal, bernoulli, exponential or integers.

    Parameters: seed (low, high), offset (low, high), then two numbers of the distribution.
    """
    value, types = _drawn(kind, result)
    return Pointwise((), (Output(result, count, None),), types, kind, (count,), (Store(0, 0, (1,), value),))


@kernel_cache
def _drawn(kind: str, result: dtype) -> tuple[ir.Expression, tuple[dtype, ...]]:
    """Return what each element of a kernel of :func:`draw_kernel` computes, and the types of its parameters."""
    own = _word(_position() & 3)
    if kind == "integers":
        low, span = ir.parameter(4, uint32), ir.parameter(5, uint32)
        draw = ir.cast(own, uint32)
        value = ir.cast(ir.apply("remainder", draw, span), compute_dtype(result)) + ir.cast(
            ir.cast(low, int32), compute_dtype(result)
        )
        types = (uint32,) * 6
    else:
        first, second = ir.parameter(4, float32), ir.parameter(5, float32)
        types = (uint32,) * 4 + (float32,) * 2
        if kind == "uniform":
            value = first + _unit(own) * (second - first)
        elif kind == "bernoulli":
            value = ir.select(_unit(own) < first, 1.0, 0.0)
        elif kind == "exponential":
            # Never zero, by which others divide.
            value = -ir.apply("log", ir.binary("minimum", _positive_unit(own), 1.0 - 2.0**-24)) / first
        else:
            value = first + _standard_normal() * second
    return ir.cast(ir.cast(value, compute_dtype(result)), result), types


def _device_draw(
    kind: str, shape: tuple[int, ...], result: dtype, place: device, generator: Generator, numbers: tuple[Any, Any]
) -> Tensor:
    count = number_of_elements(shape)
    kernel, parameters = draw_kernel(kind, count, result), (*_stream_parameters(generator), *numbers)
    return record_on(engine_for(place), place, kernel, (), parameters, (contiguous_layout(shape),))


def _stream_parameters(generator: Generator) -> tuple[int, int, int, int]:
    """Return seed and offset of the next draw, low words first, and advance the generator by it."""
    seed, offset = generator.next_draw()
    return seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, offset & 0xFFFFFFFF, 0


def source_generator(given: Generator | None, place: device) -> Generator:
    """Return the generator that draws on a device come from: the given one, or the device's own."""
    if context.refuses_random is not None:
        raise RuntimeError(context.refuses_random)
    if given is None:
        return default_generator(place)
    own = _place_of(given)
    if own.type != place.type and not (on_host(own) and on_host(place)):
        raise RuntimeError(f"Expected a '{place}' device type for generator but found '{own}'")
    return given


def _place_of(generator: object) -> device:
    """Return the device that a generator is for."""
    if not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return canonical_device(generator.device)


def draw(
    kind: str, shape: tuple[int, ...], result: dtype, place: device, generator: Any, first: Any, second: Any
) -> Tensor:
    """Return random numbers on a device: the same stream as PyTorch's on the CPU."""
    require_distribution(kind, result, first, second)
    if place.type == "meta":
        return empty_tensor(shape, result, place)
    if result.is_complex:
        # The parts of a normal number share its variance.
        second = second / math.sqrt(2.0) if kind == "normal" else second
        return complex_alias(draw(kind, (*shape, 2), result.to_real(), place, generator, first, second))
    source = source_generator(generator, place)
    if not on_host(place):
        return _device_draw(kind, shape, result, place, source, (first, second))
    return host_draw(kind, shape, result, place, source, first, second)


def host_draw(
    kind: str, shape: tuple[int, ...], element: dtype, place: device, source: Generator, first: Any = None,
    second: Any = None, result: dtype | None = None,
) -> Tensor:  # fmt: skip
    """Return what a host's device draws (see :meth:`~webgpu_torch_core.backend.interface.Device.draw`) in a shape."""
    engine, of = engine_for(place), result or element
    data = engine.device.draw(kind, source.host_stream(), number_of_elements(shape), element, first, second)
    return Tensor._from_value(engine.keep(of, data), contiguous_layout(shape), of, place)


def _drawn_into(out: Tensor, shape: tuple[int, ...], kind: str, generator: Any) -> Tensor:
    """Overwrite the caller's tensor in its own memory's order, as PyTorch does."""
    if out._layout.shape != tuple(shape):
        out.resize_(shape)
    return getattr(out, f"{kind}_")(generator=generator)


def _creation(name: str, kind: str, numbers: tuple[float, float], doc: str) -> None:
    def function(
        *size: Any,
        generator: Any = None,
        out: Tensor | None = None,
        dtype: dtype | None = None,
        layout: Any = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        **named: Any,
    ) -> Tensor:
        require_layout(layout, pin_memory)
        size = one_or_named(name, size, named, "size")
        place = place_of(device) if out is None else out.device
        if device is None and out is None and generator is not None:
            place = _place_of(generator)
        element, shape = asked(dtype, place, out, default_float[0])[0], sizes_from(size)
        if out is not None:
            return _drawn_into(out, shape, kind, generator)
        result = draw(kind, shape, element, place, generator, *numbers)
        return as_leaf(result, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    operation("random", method=False)(function)

    def like(
        input: Tensor,
        *,
        generator: Any = None,
        dtype: dtype | None = None,
        layout: Any = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
        memory_format: memory_format | None = None,
        pin_memory: bool = False,
    ) -> Tensor:
        require_layout(layout, pin_memory)
        made = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
        if made._layout.is_contiguous:
            made = laid_out(draw(kind, made.shape, made.dtype, made.device, generator, *numbers), made._layout)
        else:
            # PyTorch keeps the input's strides and draws in the order of memory.
            made = getattr(made, f"{kind}_")(generator=generator)
        return made.requires_grad_() if requires_grad else made

    like.__name__ = like.__qualname__ = f"{name}_like"
    like.__doc__ = f"{doc[:-1]}, in the input's shape and type."
    operation("random", method=False)(like)


_creation("rand", "uniform", (0.0, 1.0), "Uniform numbers from [0, 1).")
_creation("randn", "normal", (0.0, 1.0), "Standard normal numbers.")


@operation("random", method=False)
def randint(
    low: Any = 0,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Integers from ``[low, high)``."""
    require_layout(layout, pin_memory, requires_grad)
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    place = place_of(device)
    kind = as_dtype(dtype) or int64
    result = integers(int(low), int(high), one_tuple_of_sizes("randint", size, 3), kind, place, generator)
    return into(result, out)


def integers(low: int, high: int, shape: tuple[int, ...], kind: dtype, place: device, generator: Any) -> Tensor:
    """Return integers from ``[low, high)``; on GPU devices ranges of types other than int64 must fit 32 bits."""
    if kind.is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    require_distribution("integers", kind, low, high)
    source = source_generator(generator, place)
    if on_host(place):
        return host_draw("integers", shape, kind, place, source, low, high)
    if kind is int64 and (high - low > 0xFFFFFFFF or not -(1 << 31) <= low < 1 << 31):
        return wide_integers(low, high, lambda least, most: integers(least, most, shape, kind, place, generator))
    if high - low > 0xFFFFFFFF or not -(1 << 31) <= low < 1 << 31:
        raise RuntimeError(f"randint on {place} takes ranges within 32 bits, got [{low}, {high})")
    return _device_draw("integers", shape, kind, place, source, (low & 0xFFFFFFFF, high - low))


@operation("random", method=False)
def randint_like(
    input: Tensor,
    low: int = 0,
    high: int | None = None,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
    generator: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Integers from ``[low, high)`` in the input's shape and type."""
    require_layout(layout, requires_grad, pin_memory)
    low, high = (0, low) if high is None else (low, high)
    result = empty_like(input, dtype=dtype, device=device, memory_format=memory_format)
    if not result._layout.is_contiguous:
        return result.random_(int(low), int(high), generator=generator)
    drawn = integers(int(low), int(high), tuple(result._layout.shape), result.dtype, result.device, generator)
    return laid_out(drawn, result._layout)


@operation("random", method=False)
def randperm(
    n: int,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | None = int64,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The numbers 0 to n - 1 in random order.

    Raises:
        RuntimeError: ``n`` is negative, or too large for the type.
    """
    require_layout(layout, requires_grad, pin_memory)
    n, place = int(n), place_of(device)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    kind = as_dtype(dtype) or int64
    if n - 1 > kind.maximum:
        raise RuntimeError(f"n is too large for {kind!r}, which counts to {kind.maximum}: got {n}")
    source = source_generator(generator, place)
    if on_host(place):
        result = host_draw("permutation", (n,), int64, place, source)
    else:
        result = draw("uniform", (n,), float32, place, source, 0.0, 1.0).argsort()
    return into(result.to(kind), out)


@operation("random", method=False)
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal numbers with given means and standard deviations (numbers or tensors).

    Raises:
        TypeError: two numbers without a size.
        RuntimeError: a negative deviation; of one in a tensor the next reading of results tells.
    """
    require_layout(layout, pin_memory)
    if out is not None and out.dtype.category < 2:
        raise NotImplementedError(f"\"normal_kernel\" not implemented for '{type_title(out)}'")
    if size is not None:
        result = draw(
            "normal",
            one_tuple_of_sizes("normal", size, 3),
            *asked(dtype, device, out, default_float[0]),
            generator,
            float(mean),
            float(std),
        )
    elif not (isinstance(mean, Tensor) or isinstance(std, Tensor)):
        raise TypeError(f"normal() of two numbers takes a size, too: got mean={mean!r:.80}, std={std!r:.80}")
    else:
        if isinstance(std, Tensor) and std.dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        check_deviations(std)
        like = mean if isinstance(mean, Tensor) else std
        shape = (
            (mean + std)._layout.shape if isinstance(mean, Tensor) and isinstance(std, Tensor) else like._layout.shape
        )
        plain = [each.detach() if isinstance(each, Tensor) else each for each in (mean, std)]
        result = draw("normal", tuple(shape), like.dtype, like.device, generator, 0.0, 1.0) * plain[1] + plain[0]
        result = result.to(like.dtype) if isinstance(mean, Tensor) and isinstance(std, Tensor) else result
        _attach_zero(result, "NormalBackward0", (mean, std))
    if out is not None:
        return into(result, out, read=(mean, std))
    return as_leaf(result, requires_grad)


@operation("random")
def bernoulli(input: Tensor, p: Number | None = None, *, generator: Any = None, out: Tensor | None = None) -> Tensor:
    """1 with the probability in each element (or with probability ``p``), else 0.

    Raises:
        NotImplementedError: elements that are no probabilities.
        RuntimeError: a probability outside of [0, 1]; of one in a tensor on a GPU the next reading of results tells.
    """
    if p is None and (input.dtype.category < 2 or input.dtype in FLOAT8):
        raise NotImplementedError(f"\"bernoulli_tensor_cpu_p_\" not implemented for '{type_title(input)}'")
    if p is not None:
        result = draw("bernoulli", tuple(input._layout.shape), input.dtype, input.device, generator, float(p), 0.0)
    else:
        result = bernoulli_of(input.detach(), input.dtype, generator)
        _attach_zero(result, "BernoulliBackward0", (input,))
    if out is None:
        return result
    if out.dtype.is_complex and input.numel():
        raise NotImplementedError(f"\"bernoulli_tensor_cpu_self_\" not implemented for '{type_title(out)}'")
    return into(result.to(out.dtype), out, read=(input,))


def _attach_zero(result: Tensor, title: str, inputs: tuple[Any, ...]) -> None:
    """Give a draw the gradient that PyTorch gives it: zero."""
    shapes = [each.shape if isinstance(each, Tensor) else None for each in inputs]

    def run_backward(grad: Tensor) -> Any:
        return tuple(None if shape is None else grad.new_zeros(shape) for shape in shapes)

    attach(result, title, inputs, run_backward)


def bernoulli_of(probabilities: Tensor, kind: dtype, generator: Any) -> Tensor:
    """Return ones with the probabilities in a tensor, else zeros."""
    place = probabilities.device
    if on_host(place):
        shape, source = tuple(probabilities._layout.shape), source_generator(generator, place)
        return host_draw("bernoulli_of", shape, kind, place, source, read_bytes(probabilities), probabilities.dtype)
    check_probabilities(probabilities)
    uniform = draw("uniform", tuple(probabilities._layout.shape), float32, place, generator, 0.0, 1.0)
    return (uniform < probabilities).to(kind)


def bernoulli_mask(input: Tensor, keep: float) -> Tensor:
    """Return ones with probability ``keep`` in the input's shape and type: a dropout mask."""
    return draw("bernoulli", tuple(input._layout.shape), input.dtype, input.device, None, float(keep), 0.0)


@operation("random")
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Tensor | None = None
) -> Tensor:
    """Category positions drawn with the weights in each row.

    Raises:
        RuntimeError: too many samples without replacement; negative, infinite or NaN weights; rows that sum to zero. Weights
            on a GPU are checked there, and the error is raised when results are read next.
    """
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.dtype.is_floating_point:
        kind = type_title(input)
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {kind}")
    if out is not None and out.dtype is not int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {type_title(out)}")
    num_samples = operator.index(num_samples)
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    rows = 1 if input.ndim == 1 else input.shape[0]
    shape = (num_samples,) if input.ndim == 1 else (rows, num_samples)
    if not rows:
        result = input.new_empty(shape, dtype=int64)
    elif on_host(input.device):
        options = (rows, num_samples, replacement)
        source = source_generator(generator, input.device)
        result = host_draw("multinomial", shape, input.dtype, input.device, source, read_bytes(input), options, int64)
    else:
        result = _device_multinomial(input.detach().reshape(rows, -1), num_samples, replacement, generator).reshape(
            shape
        )
    return into(result, out)


def _device_multinomial(weights: Tensor, count: int, replacement: bool, generator: Any) -> Tensor:
    """Sample without reading anything back: exponential races (Efraimidis & Spirakis, 2006)."""
    shape = tuple(weights._layout.shape)
    check_weights(weights)
    if not replacement:
        waits = draw("exponential", shape, float32, weights.device, generator, 1.0, 0.0)
        scores = weights.to(float32) / waits
        return scores.argmax(-1, keepdim=True) if count == 1 else scores.topk(count, -1).indices
    waits = draw("exponential", (shape[0], count, shape[1]), float32, weights.device, generator, 1.0, 0.0)
    return (weights.to(float32).unsqueeze(1) / waits).argmax(-1)
