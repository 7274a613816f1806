"""Random numbers as PyTorch's CPU kernels draw them: ``fill_*`` functions return host arrays.

Every function takes a :class:`~webgpu_torch_core.random_streams.streams.MersenneTwister`, the number of elements and the
element type, and returns an ``array`` whose bytes are PyTorch's (float16 and bfloat16 as bits in an ``array('H')``,
bool as bytes, complex numbers as arrays of their parts). PyTorch draws in the order of memory of a contiguous tensor.
"""

from __future__ import annotations

import math
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from webgpu_torch_core.ir.dtypes import FLOAT8, UNPROMOTED, bfloat16, bool_, dtype, float16, float32, float64, int64
from webgpu_torch_core.ir.host_bytes import C_NAMES
from webgpu_torch_core.ir.scalar_math import fused_multiply_add
from webgpu_torch_core.notices import warn
from webgpu_torch_core.random_streams.box_muller import normal_float32, normal_float64
from webgpu_torch_core.random_streams.streams import MersenneTwister, integer_words, normal_words, uniform_words

TYPECODES = {
    "bool": "B", "uint8": "B", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I",
    "uint64": "Q", "float16": "H", "bfloat16": "H", "float32": "f", "float64": "d",
}  # fmt: skip
"""The ``array`` type code that holds the elements of each type."""

# Bits of the significand: random_() without bounds draws the integers a floating type counts without gaps.
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def encode(values: Iterable[float], element: dtype) -> array[Any]:
    """Return numbers as an array of ``element``, rounding as PyTorch's conversion from float64 does."""
    if element is float16 or element is bfloat16:
        single = array("f", values)
        return _half_bits(single) if element is float16 else _bfloat16_bits(single)
    if element.is_floating_point:
        return array(TYPECODES[element.name], values)
    return array(TYPECODES[element.name], [int(value) for value in values])


def _half_bits(values: array[float]) -> array[int]:
    result = array("H")
    try:
        result.frombytes(struct.pack(f"<{len(values)}e", *values))
    except OverflowError:
        # 65520 is the first number that rounds beyond the largest half.
        clipped = [math.copysign(math.inf, v) if abs(v) >= 65520.0 else v for v in values]
        result.frombytes(struct.pack(f"<{len(values)}e", *clipped))
    return result


def _bfloat16_bits(values: array[float]) -> array[int]:
    bits = array("I")
    bits.frombytes(values.tobytes())
    return array(
        "H",
        [0x7FC0 if b & 0x7FFFFFFF > 0x7F800000 else (b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits],
    )


def uniform_doubles(generator: MersenneTwister, count: int) -> list[float]:
    """Return draws from [0, 1) in double precision."""
    return [(word & 0x1FFFFFFFFFFFFF) * 2.0**-53 for word in generator.words64(count)]


#: distributions that have no integral numbers, but for those whose types PyTorch looks at itself
_CONTINUOUS = ("uniform", "normal", "normal_pairs", "log_normal")
#: what PyTorch calls kernels, where not by the distribution
_KERNELS = {
    "uniform": "check_uniform_bounds", "normal": "normal_kernel_cpu", "normal_pairs": "normal_kernel_cpu",
    "log_normal": "log_normal_cpu", "geometric": "geometric_cpu",
}  # fmt: skip

#: distributions whose types PyTorch looks at itself
_LOOKED_AT = ("exponential", "cauchy")
#: distributions of which PyTorch draws no complex numbers, no truth values, and no unsigned numbers of more than eight bits
_REAL = ("log_normal", "geometric")


def require_distribution(kind: str, element: dtype, first: float, second: float = 0.0) -> None:
    """Refuse what no device draws: 8-bit floats, integral types of continuous distributions, and parameters outside of their ranges.

    Raises:
        NotImplementedError: the element type.
        RuntimeError: the parameters, or the element type.
    """
    if kind in _LOOKED_AT and not element.is_floating_point:
        raise RuntimeError(
            f"{kind.capitalize()} distribution is a continuous probability distribution. dtype must be a floating point but you "
            f"specified {element.word if kind == 'cauchy' else element.title}"
        )
    integral = not (element.is_floating_point or element.is_complex)
    if (
        (kind in _CONTINUOUS and integral)
        or element in FLOAT8
        or (kind in _REAL and (element.is_complex or element is bool_ or element in UNPROMOTED))
    ):
        raise NotImplementedError(f"\"{_KERNELS.get(kind, kind)}\" not implemented for '{element.title}'")
    if kind == "integers":
        _require_bounds(element, int(first), int(second))
    elif kind == "uniform":
        _require_range(element, first, second)
    elif kind in ("normal", "normal_pairs") and second < 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {second:g}")
    elif kind == "log_normal" and not second > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={second:g}")
    elif kind == "cauchy" and not second > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={second:g}")
    elif kind == "exponential" and not first > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={first:g}")
    elif kind == "geometric" and not 0.0 < first < 1.0:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={first:g}")
    elif kind == "bernoulli" and not 0.0 <= first <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={first:g}")


def _require_range(element: dtype, low: float, high: float) -> None:
    """Raise for a range of floating-point numbers that is none, or is wider than an element type holds."""
    most = element.to_real().maximum if element.is_complex else element.maximum
    for name, value in (("from", low), ("to", high)):
        if not -most <= value <= most:
            raise RuntimeError(f"{name} is out of bounds for {C_NAMES[element.name]}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if high - low > most:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{element.title}>::max(), but found to={high:g} and from={low:g} which "
            "result in to-from to exceed the limit"
        )


def _require_bounds(element: dtype, low: int, high: int) -> None:
    largest, smallest = int(element.maximum), int(element.minimum)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not smallest <= value <= largest:
            raise RuntimeError(f"{name} is out of bounds for {element!r}: expected {smallest} <= {value} <= {largest}")


def warn_of_gaps(element: dtype, low: int, high: int) -> None:
    """Warn where a floating-point type does not hold all whole numbers from ``low`` to ``high - 1``."""
    digits = _DIGITS.get(element.name, 64)
    for name, value in (("from", low), ("to - 1", high - 1)):
        if abs(value) > 1 << digits:
            warn(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {element!r} can support discrete uniform "
                "distribution only within this range. This warning will become an error in version 1.7 release, please fix the code "
                "in advance"
            )


def fill_uniform(
    generator: MersenneTwister, count: int, element: dtype = float32, low: float = 0.0, high: float = 1.0
) -> array[Any]:
    """Return draws from ``[low, high)``, as :func:`torch.rand` and :meth:`torch.Tensor.uniform_`.

    Raises RuntimeError when ``low > high``, NotImplementedError for integral types.
    """
    if element.is_complex:
        return fill_uniform(generator, 2 * count, element.to_real(), low, high)
    require_distribution("uniform", element, low, high)
    words = uniform_words(generator, count, element)
    if element is float64:
        return array("d", _scale_doubles(words, low, high))
    if low == 0.0 and high == 1.0:
        single = array("f", [(word & 0xFFFFFF) * 2.0**-24 for word in words])
    else:
        base, top = array("f", (low, high))
        width = array("f", (top - base,))[0]
        # The product is exact in double precision: one rounding, as a fused multiply-add.
        single = array("f", [(word & 0xFFFFFF) * 2.0**-24 * width + base for word in words])
    result = encode(single, element)
    # Rounding may reach the upper bound, which the interval does not contain.
    low_element, high_element = encode((low, high), element)
    if high_element in result:
        result = array(result.typecode, [low_element if value == high_element else value for value in result])
    return result


def _scale_doubles(words: array[int], low: float, high: float) -> list[float]:
    if low == 0.0 and high == 1.0:
        return [(word & 0x1FFFFFFFFFFFFF) * 2.0**-53 for word in words]
    width = high - low
    draws = [fused_multiply_add((word & 0x1FFFFFFFFFFFFF) * 2.0**-53, width, low) for word in words]
    return [low if value == high else value for value in draws]


def fill_normal(
    generator: MersenneTwister, count: int, element: dtype = float32, mean: float = 0.0, std: float = 1.0
) -> array[Any]:
    """Return normal draws, as :func:`torch.randn` and :meth:`torch.Tensor.normal_` on a contiguous tensor.

    From 16 elements on PyTorch transforms blocks of 16; below it draws pairs in double precision and keeps the
    second number of a pair for the next call. Source: G. Box and M. Muller, "A note on the generation of random
    normal deviates", 1958. Raises RuntimeError when ``std < 0``, NotImplementedError for integral types.
    """
    require_distribution("normal", element, mean, std)
    if element.is_complex:
        # Half of the variance each to the real and the imaginary part.
        return _complex_normal(generator, count, element.to_real(), mean, std)
    if count < 16:
        return encode(normal_doubles(generator, count, mean, std), element)
    words = normal_words(generator, count, element)
    blocks = normal_float64(words, mean, std) if element is float64 else normal_float32(words, mean, std)
    blocks = encode(blocks, element) if element.itemsize == 2 else blocks
    if count % 16:
        tail = blocks[-16:]
        del blocks[count - count % 16 :]
        blocks[count - 16 :] = tail
    return blocks


def _complex_normal(generator: MersenneTwister, count: int, kind: dtype, mean: float, std: float) -> array[float]:
    parts = fill_normal(generator, 2 * count, kind, 0.0, std / math.sqrt(2.0))
    if mean != 0.0:
        parts[0::2] = encode([value + mean for value in parts[0::2]], kind)
    return parts


def normal_doubles(generator: MersenneTwister, count: int, mean: float, std: float) -> list[float]:
    """Return ``count`` normal numbers drawn one pair at a time, through the generator's cached sample."""
    samples = []
    if count > 0 and generator.next_double_normal_sample is not None:
        samples.append(generator.next_double_normal_sample)
        generator.next_double_normal_sample = None
    drawn = uniform_doubles(generator, (count - len(samples) + 1) // 2 * 2)
    for turn, depth in zip(drawn[0::2], drawn[1::2], strict=True):
        radius = math.sqrt(-2.0 * math.log1p(-depth))
        angle = 2.0 * math.pi * turn
        samples += (radius * math.cos(angle), radius * math.sin(angle))
    if len(samples) > count:
        generator.next_double_normal_sample = samples.pop()
    if mean == 0.0 and std == 1.0:
        # As the rounded product and sum, which makes -0 to 0.
        return [sample + 0.0 for sample in samples]
    return [fused_multiply_add(sample, std, mean) for sample in samples]


def fill_log_normal(
    generator: MersenneTwister, count: int, element: dtype = float32, mean: float = 1.0, std: float = 2.0
) -> array[Any]:
    """Return ``exp`` of normal draws, as :meth:`torch.Tensor.log_normal_`; raises RuntimeError unless ``std > 0``."""
    require_distribution("log_normal", element, mean, std)
    return encode([power(value) for value in normal_doubles(generator, count, mean, std)], element)


def power(value: float) -> float:
    """Return ``exp(value)``, infinite where it is too large."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def fill_exponential(
    generator: MersenneTwister, count: int, element: dtype = float32, lambd: float = 1.0
) -> array[Any]:
    """Return ``-log(1 - u) / lambd``, as :meth:`torch.Tensor.exponential_`; raises RuntimeError unless ``lambd > 0``."""
    require_distribution("exponential", element, lambd)
    factor = -1.0 / lambd
    return encode([factor * math.log1p(-u) for u in uniform_doubles(generator, count)], element)


def fill_cauchy(
    generator: MersenneTwister, count: int, element: dtype = float32, median: float = 0.0, sigma: float = 1.0
) -> array[Any]:
    """Return ``median + sigma * tan(pi * (u - 1/2))``, as :meth:`torch.Tensor.cauchy_`; RuntimeError unless ``sigma > 0``."""
    require_distribution("cauchy", element, median, sigma)
    tangents = [math.tan(math.pi * (u - 0.5)) for u in uniform_doubles(generator, count)]
    return encode([fused_multiply_add(sigma, tangent, median) for tangent in tangents], element)


def fill_geometric(generator: MersenneTwister, count: int, element: dtype, p: float) -> array[Any]:
    """Return ``ceil(log(u) / log(1 - p))``, as :meth:`torch.Tensor.geometric_`; raises RuntimeError unless ``0 < p < 1``."""
    require_distribution("geometric", element, p)
    divisor = math.log1p(-p)
    draws = uniform_doubles(generator, count)
    return encode([math.ceil(math.log(u) / divisor) if u else math.inf for u in draws], element)


def fill_integers(
    generator: MersenneTwister, count: int, low: int, high: int | None, element: dtype = int64
) -> array[Any]:
    """Return integers from ``[low, high)``, as :func:`torch.randint` and ``Tensor.random_(low, high)``.

    ``high=None`` means up to the largest integer of ``element``. Raises RuntimeError when the interval is empty or
    ``element`` cannot hold it.
    """
    if high is None:
        high = (1 << _DIGITS[element.name] if element.is_floating_point else int(element.maximum)) + 1
    require_distribution("integers", element, low, high)
    span = high - low
    if span == 1 << 64:
        # All 64 bits at once, as they are.
        return encode_integers([word - span if word >> 63 else word for word in generator.words64(count)], element)
    return encode_integers([word % span + low for word in integer_words(generator, count, span)], element)


def encode_integers(values: list[int], element: dtype) -> array[Any]:
    """Return integers that ``element`` can hold as an array of it."""
    return encode(values, element) if element.is_floating_point else array(TYPECODES[element.name], values)


def fill_random(generator: MersenneTwister, count: int, element: dtype = int64) -> array[Any]:
    """Return ``Tensor.random_()``: integers from 0 to the largest that ``element`` counts to without gaps."""
    if element is bool_:
        return array("B", [word & 1 for word in generator.words(count)])
    span = (1 << _DIGITS[element.name]) + 1 if element.is_floating_point else int(element.maximum) + 1
    words = generator.words64(count) if element is int64 or element is float64 else generator.words(count)
    return encode_integers([word % span for word in words], element)


def fill_permutation(generator: MersenneTwister, count: int) -> array[int]:
    """Return the numbers ``0 .. count - 1`` shuffled, as :func:`torch.randperm`, in an ``array('q')``.

    Source: R. Fisher and F. Yates, in the form of R. Durstenfeld, "Algorithm 235: Random permutation", 1964.
    Raises RuntimeError when ``count < 0``.
    """
    if count < 0:
        raise RuntimeError(f"n must be non-negative, got {count}")
    result = list(range(count))
    # A 32-bit word modulo a much longer range would favour its low end.
    words = generator.words(count - 1) if count < 0xFFFFFFFF // 20 else generator.words64(count - 1)
    for index, word in enumerate(words):
        other = index + word % (count - index)
        result[index], result[other] = result[other], result[index]
    return array("q", result)


def fill_bernoulli(
    generator: MersenneTwister, count: int, p: float | Sequence[float], element: dtype = float32,
    p_dtype: dtype = float32,
) -> array[Any]:  # fmt: skip
    """Return ones with probability ``p`` and zeros otherwise, as :meth:`torch.Tensor.bernoulli_`.

    A number ``p`` is compared with double precision draws; a sequence of ``count`` probabilities (a tensor ``p``)
    with draws in the precision of its type ``p_dtype``. Raises RuntimeError unless ``0 <= p <= 1``.
    """
    one = encode((1.0,), element)[0]
    if isinstance(p, (int, float)):
        require_distribution("bernoulli", element, p)
        limit = p * 2.0**53
        draws = [one if (word & 0x1FFFFFFFFFFFFF) < limit else 0 for word in generator.words64(count)]
        return array(TYPECODES[element.name], draws)
    if len(p) != count:
        raise ValueError(f"bernoulli_ expects one probability per element: got {len(p)} for {count} elements")
    if any(not 0.0 <= each <= 1.0 for each in p):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    words = uniform_words(generator, count, p_dtype)
    bits = 53 if p_dtype is float64 else 24
    mask, scale = (1 << bits) - 1, 2.0**-bits
    draws = [one if (word & mask) * scale < each else 0 for word, each in zip(words, p)]
    return array(TYPECODES[element.name], draws)


def fill_multinomial(
    generator: MersenneTwister, probabilities: Sequence[float], rows: int, num_samples: int,
    replacement: bool = False, element: dtype = float32,
) -> array[int]:  # fmt: skip
    """Return ``rows x num_samples`` category indices in an ``array('q')``, as :func:`torch.multinomial`.

    ``probabilities`` holds ``rows`` rows of weights, values of type ``element``. Without replacement, and for one
    sample, the ``num_samples`` largest of ``p / q`` with exponential ``q`` are taken (P. Efraimidis and P. Spirakis,
    "Weighted random sampling with a reservoir", 2006). Raises RuntimeError for weights that are negative, not finite
    or all zero, and for more samples than categories without replacement.
    """
    categories = len(probabilities) // rows if rows else 0
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > categories:
        raise RuntimeError(
            f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: {num_samples} > {categories}"
        )
    result = array("q")
    table = [probabilities[row * categories : (row + 1) * categories] for row in range(rows)]
    if replacement and num_samples > 1:
        for weights in table:
            result.extend(_sample_with_replacement(generator, weights, num_samples, element))
        return result
    for weights in table:
        _check_weights(weights)
    precise = float64 if element is float64 else float32
    waits = fill_exponential(generator, rows * categories, element)
    waiting = decode(waits, element)
    for row, weights in enumerate(table):
        row_waiting = waiting[row * categories : (row + 1) * categories]
        scores = [p / q if q else math.inf for p, q in zip(weights, row_waiting)]
        scores = decode(encode(scores, element), element) if precise is float32 else scores
        result.extend(sorted(range(categories), key=scores.__getitem__, reverse=True)[:num_samples])
    return result


def decode(values: array[Any], element: dtype) -> list[float]:
    """Return the numbers in an array of ``element`` as Python numbers."""
    if element is float16:
        return list(struct.unpack(f"<{len(values)}e", values.tobytes()))
    if element is bfloat16:
        single = array("f")
        single.frombytes(array("I", [value << 16 for value in values]).tobytes())
        return list(single)
    return list(values)


def _check_weights(weights: Sequence[float]) -> None:
    for weight in weights:
        if not 0.0 <= weight < math.inf:
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not any(weights):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _sample_with_replacement(
    generator: MersenneTwister, weights: Sequence[float], num_samples: int, element: dtype
) -> list[int]:
    """Return indices by bisection of the running sum, which PyTorch keeps in the type of the weights."""
    _check_weights(weights)
    typecode = "d" if element is float64 else "f"
    running = array(typecode, (0.0,))
    sums = array(typecode)
    for weight in weights:
        running[0] += weight
        sums.append(running[0])
    total = running[0]
    sums = array(typecode, [value / total for value in sums])
    sums[-1] = 1.0
    return [bisect_left(sums, u) for u in uniform_doubles(generator, num_samples)]
