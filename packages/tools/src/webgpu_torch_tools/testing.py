"""Assertions and random tensors for tests, as ``torch.testing``."""

from __future__ import annotations

import cmath
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor, device, dtype, memory_format

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

Place = tuple[Any, ...]
Message = str | Callable[[str], str] | None

#: the tolerances of a type, relative and absolute; those of all others are zero
_TOLERANCES: dict[Any, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}
_OLD_TOLERANCES: dict[Any, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-3),
    torch.float32: (1e-4, 1e-5),
    torch.float64: (1e-5, 1e-8),
}
#: the types of tensors whose tolerances Python's numbers have
_TYPES_OF_NUMBERS: dict[type, dtype] = {int: torch.int64, float: torch.float64, complex: torch.complex128}


class _Problem(Exception):
    """Why two values differ, and where they lie in the containers that were given."""

    def __init__(self, kind: type[Exception], text: str, place: Place = ()) -> None:
        super().__init__(text)
        self.kind, self.text, self.place = kind, text, place

    def error(self, message: Message = None) -> Exception:
        """Return the exception that the caller sees, with the caller's message if there is one."""
        if isinstance(message, str):
            return self.kind(message)
        text = self.text
        if self.place:
            text += f"\n\nThe failure occurred for item {_brackets(self.place)}"
        return self.kind(text if message is None else message(text))


def _brackets(place: Place) -> str:
    return "".join(f"[{each!r}]" for each in place)


class _Options:
    """The arguments of :func:`assert_close` that say what counts as close."""

    def __init__(
        self, rtol: float | None, atol: float | None, equal_nan: bool, allow_subclasses: bool, check_device: bool,
        check_dtype: bool, check_layout: bool, check_stride: bool,
    ) -> None:  # fmt: skip
        self.rtol, self.atol, self.equal_nan, self.allow_subclasses = rtol, atol, equal_nan, allow_subclasses
        self.check_device, self.check_dtype = check_device, check_dtype
        self.check_layout, self.check_stride = check_layout, check_stride

    def tolerances(self, one: Any, other: Any, place: Place) -> tuple[float, float]:
        """Return the tolerances for two types: those given, else the looser of the types' own."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        if self.rtol is not None or self.atol is not None:
            missing = "rtol" if self.rtol is None else "atol"
            text = f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
            raise _Problem(ValueError, text, place)
        return _looser(one, other, _TOLERANCES)


def _looser(one: Any, other: Any, table: dict[Any, tuple[float, float]]) -> tuple[float, float]:
    (first, second), (third, fourth) = table.get(one, (0.0, 0.0)), table.get(other, (0.0, 0.0))
    return max(first, third), max(second, fourth)


#: a comparison whose inputs are checked already; it raises _Problem
Comparison = Callable[[], None]


def _comparisons(actual: Any, expected: Any, options: _Options, place: Place = ()) -> Iterator[Comparison]:
    """Yield a comparison for every pair of values inside of two containers of the same structure."""
    if all(isinstance(each, Sequence) and not isinstance(each, str) for each in (actual, expected)):
        if len(actual) != len(expected):
            text = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise _Problem(AssertionError, text, place)
        for index in range(len(actual)):
            yield from _comparisons(actual[index], expected[index], options, (*place, index))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        for key in _common_keys(actual, expected, place):
            yield from _comparisons(actual[key], expected[key], options, (*place, key))
    else:
        yield _comparison(actual, expected, options, place)


def _common_keys(actual: Mapping[Any, Any], expected: Mapping[Any, Any], place: Place) -> list[Any]:
    found, wanted = set(actual), set(expected)
    if found != wanted:
        text = (
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {sorted(wanted - found)}\n"
            f"Additional keys in the actual mapping: {sorted(found - wanted)}"
        )
        raise _Problem(AssertionError, text, place)
    try:
        return sorted(found)
    except TypeError:
        return list(actual)


def _comparison(actual: Any, expected: Any, options: _Options, place: Place) -> Comparison:
    """Return the comparison that fits the types of two values.

    Raises:
        _Problem: none does, or one of the two tolerances is missing.
        RuntimeError: preparing it failed.
    """
    for prepare in (_none_comparison, _bool_comparison, _number_comparison, _tensor_comparison):
        try:
            found = prepare(actual, expected, options, place)
        except _Problem:
            raise
        except Exception as error:
            names = f"{type(actual).__name__} {actual!r} and {type(expected).__name__} {expected!r}"
            raise RuntimeError(f"{names} at item {_brackets(place)} cannot be compared: {error!r}") from error
        if found is not None:
            return found
    text = f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
    raise _Problem(TypeError, text, place)


def _none_comparison(actual: Any, expected: Any, options: _Options, place: Place) -> Comparison | None:
    def compare() -> None:
        if actual is not expected:
            raise _Problem(AssertionError, f"None mismatch: {actual} is not {expected}", place)

    return compare if actual is None or expected is None else None


def _numpy_type(name: str) -> tuple[type, ...]:
    """Return one of NumPy's types where the program has NumPy."""
    import sys

    numpy = sys.modules.get("numpy")
    return () if numpy is None else (getattr(numpy, name),)


def _bool_comparison(actual: Any, expected: Any, options: _Options, place: Place) -> Comparison | None:
    kinds = (bool, *_numpy_type("bool_"))
    if not isinstance(actual, kinds) or not isinstance(expected, kinds):
        return None
    found, wanted = bool(actual), bool(expected)

    def compare() -> None:
        if found is not wanted:
            # PyTorch tells no place for booleans, and programs compare its texts.
            raise _Problem(AssertionError, f"Booleans mismatch: {found} is not {wanted}")

    return compare


def _number_comparison(actual: Any, expected: Any, options: _Options, place: Place) -> Comparison | None:
    numpy_numbers = _numpy_type("number")
    kinds = (int, float, complex, *numpy_numbers)
    if not isinstance(actual, kinds) or not isinstance(expected, kinds):
        return None
    found, wanted = (each.item() if isinstance(each, numpy_numbers) else each for each in (actual, expected))
    rtol, atol = options.tolerances(_TYPES_OF_NUMBERS[type(found)], _TYPES_OF_NUMBERS[type(wanted)], place)

    def compare() -> None:
        if options.check_dtype and type(found) is not type(wanted):
            text = f"The (d)types do not match: {type(found)} != {type(wanted)}."
            raise _Problem(AssertionError, text, place)
        if found == wanted or (options.equal_nan and cmath.isnan(found) and cmath.isnan(wanted)):
            return
        difference = abs(found - wanted)
        if not (math.isfinite(difference) and difference <= atol + rtol * abs(wanted)):
            raise _Problem(AssertionError, _scalars_text(found, wanted, rtol, atol), place)

    return compare


def _tensor_comparison(actual: Any, expected: Any, options: _Options, place: Place) -> Comparison | None:
    if not isinstance(actual, type(expected)) and not isinstance(expected, type(actual)):
        return None
    if not options.allow_subclasses and type(actual) is not type(expected):
        return None
    try:
        found, wanted = (each if isinstance(each, Tensor) else torch.as_tensor(each) for each in (actual, expected))
    except Exception:
        # Whatever it is, it is no tensor and does not become one.
        return None
    rtol, atol = options.tolerances(found.dtype, wanted.dtype, place)

    def compare() -> None:
        _compare_attributes(found, wanted, options, place)
        if not (found.is_meta or wanted.is_meta):
            _compare_elements(*_alike(found, wanted), rtol, atol, options.equal_nan, place)

    return compare


def _compare_attributes(actual: Tensor, expected: Tensor, options: _Options, place: Place) -> None:
    def differ(name: str, one: Any, other: Any) -> NoReturn:
        text = f"The values for attribute '{name}' do not match: {one} != {other}."
        raise _Problem(AssertionError, text, place)

    if actual.shape != expected.shape:
        differ("shape", actual.shape, expected.shape)
    if actual.layout != expected.layout:
        if options.check_layout:
            differ("layout", actual.layout, expected.layout)
    elif options.check_stride and actual.stride() != expected.stride():
        differ("stride()", actual.stride(), expected.stride())
    if options.check_device and actual.device != expected.device:
        differ("device", actual.device, expected.device)
    if options.check_dtype and actual.dtype != expected.dtype:
        differ("dtype", actual.dtype, expected.dtype)


def _alike(actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """Return two tensors on one device, of the type that both promote to, without gradients."""
    actual, expected = actual.detach(), expected.detach()
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    common = torch.promote_types(actual.dtype, expected.dtype)
    return actual.to(common), expected.to(common)


def _compare_elements(
    actual: Tensor, expected: Tensor, rtol: float, atol: float, equal_nan: bool, place: Place
) -> None:
    matches = torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(matches.all()):
        return
    if actual.ndim == 0:
        raise _Problem(AssertionError, _scalars_text(actual.item(), expected.item(), rtol, atol), place)
    wrong, count = int((~matches).sum()), matches.numel()
    if not actual.dtype.is_floating_point and not actual.dtype.is_complex:
        actual, expected = actual.to(torch.int64), expected.to(torch.int64)
    absolute = (actual - expected).abs().masked_fill(matches, 0)
    relative = (absolute / expected.abs()).masked_fill(matches, 0)
    raise _Problem(
        AssertionError,
        _mismatch_text(
            "Tensor-likes", f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})",
            f"Greatest absolute difference: {_greatest(absolute)}",
            f"Greatest relative difference: {_greatest(relative)}", rtol, atol,
        ),
        place,
    )  # fmt: skip


def _greatest(differences: Tensor) -> str:
    """Return the greatest element and where it is."""
    flat = differences.flatten()
    position = int(flat.argmax())
    index: list[int] = []
    rest = position
    for size in reversed(differences.shape):
        rest, here = divmod(rest, size)
        index.insert(0, here)
    return f"{flat[position].item()} at index {tuple(index)}"


def _scalars_text(actual: complex, expected: complex, rtol: float, atol: float) -> str:
    absolute = abs(actual - expected)
    relative = math.inf if expected == 0 else absolute / abs(expected)
    return _mismatch_text(
        "Scalars", f"Expected {expected} but got {actual}.", f"Absolute difference: {absolute}",
        f"Relative difference: {relative}", rtol, atol,
    )  # fmt: skip


def _mismatch_text(what: str, detail: str, absolute: str, relative: str, rtol: float, atol: float) -> str:
    if rtol == 0 and atol == 0:
        return f"{what} are not equal!\n\n{detail}\n{absolute}\n{relative}"
    return f"{what} are not close!\n\n{detail}\n{absolute} (up to {atol} allowed)\n{relative} (up to {rtol} allowed)"


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    r"""Assert that two values are close: :math:`|actual - expected| \le atol + rtol \cdot |expected|`.

    The values are tensors, Python's or NumPy's numbers, NumPy's arrays, booleans, None, or sequences and mappings of
    them. Without ``rtol`` and ``atol`` the types of the elements decide, of two types the looser: float16 has 1e-3 and
    1e-5, bfloat16 1.6e-2 and 1e-5, float32 and complex64 1.3e-6 and 1e-5, float64 1e-7 and 1e-7, all others 0. Of meta
    tensors only the attributes are compared.

    Args:
        actual: what a program computed.
        expected: what it should have.
        allow_subclasses: compare values of related classes too, not of equal classes only.
        rtol: how far they may differ for each unit of ``expected``.
        atol: how far they may differ at least.
        equal_nan: NaN is close to NaN.
        check_device: tensors are on one device; else they are compared on the CPU.
        check_dtype: numbers or tensors have one type; else they are compared in the type that both promote to.
        check_layout: tensors have one layout.
        check_stride: tensors have the same strides.
        msg: the text of the error, or a function from the text to another.

    Raises:
        AssertionError: they are not close, or differ in structure, shape or what is checked; it says where.
        ValueError: only one of ``rtol`` and ``atol`` is given.
        TypeError: there is no comparison for values of these types.
        RuntimeError: a comparison failed by itself.
    """
    __tracebackhide__ = True
    options = _Options(rtol, atol, equal_nan, allow_subclasses, check_device, check_dtype, check_layout, check_stride)
    try:
        comparisons = list(_comparisons(actual, expected, options))
    except _Problem as problem:
        # What cannot be compared keeps its own text, as in PyTorch.
        raise problem.error() from None
    for compare in comparisons:
        try:
            compare()
        except _Problem as problem:
            raise problem.error(msg) from None
        except Exception as error:
            raise RuntimeError(f"comparing {actual!r} and {expected!r} failed: {error!r}") from error


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Assert that two tensors, or what tensors can be made of, are close; deprecated for :func:`assert_close`.

    The tolerances are 1e-3 and 1e-3 for float16, 1e-4 and 1e-5 for float32, and 1e-5 and 1e-8 for float64; the types of
    the elements may differ.

    Raises:
        AssertionError: they are not close.
        ValueError: only one of ``rtol`` and ``atol`` is given.
    """
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    found = actual if isinstance(actual, Tensor) else torch.tensor(actual)
    wanted = expected if isinstance(expected, Tensor) else torch.tensor(expected, dtype=found.dtype)
    if rtol is None and atol is None:
        rtol, atol = _looser(found.dtype, wanted.dtype, _OLD_TOLERANCES)
    assert_close(found, wanted, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def make_tensor(
    *shape: Any,
    dtype: dtype,
    device: str | device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: memory_format | None = None,
) -> Tensor:
    """Return a tensor of numbers drawn uniformly from ``[low, high)``.

    Args:
        shape: the sizes, one by one or as one sequence.
        dtype: the type of the elements.
        device: where the tensor is.
        low: the lowest number; 0 for booleans, else -9, and no lower than the type's lowest.
        high: above the highest number; 2 for booleans, 10 for integers, 9 for all others, and no more than the type's
            highest.
        requires_grad: the tensor is a leaf that takes gradients.
        noncontiguous: take every second of twice as many numbers along the last dimension.
        exclude_zero: put 1, or the smallest normal number of a floating type, in the place of zeros.
        memory_format: how the dimensions lie in memory.

    Raises:
        ValueError: ``low`` or ``high`` is NaN, outside of the type's range or in the wrong order; ``requires_grad`` with
            an integral type; ``noncontiguous`` with ``memory_format``.
        TypeError: the type has no random numbers.
    """
    if type(dtype) is not type(torch.float32):
        raise TypeError(f"The requested dtype {dtype!r:.80} is not supported by torch.testing.make_tensor().")
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    whole = not (dtype.is_floating_point or dtype.is_complex)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got {noncontiguous=} and {memory_format=}"
        )
    if requires_grad and whole:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    noncontiguous = noncontiguous and math.prod(sizes) > 1
    if noncontiguous:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    made = _drawn(sizes, dtype, device, *_bounds(low, high, dtype))
    if noncontiguous:
        made = made[..., 1::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if exclude_zero:
        made.masked_fill_(made == 0, 1 if whole else torch.finfo(dtype).tiny)
    return made.requires_grad_() if requires_grad else made


def _drawn(sizes: tuple[int, ...], kind: dtype, place: str | device, low: float, high: float) -> Tensor:
    if not (kind.is_floating_point or kind.is_complex):
        return torch.randint(math.ceil(low), math.ceil(high), sizes, device=place, dtype=kind)
    made = torch.empty(sizes, device=place, dtype=kind)
    parts = torch.view_as_real(made) if kind.is_complex else made
    if high - low >= torch.finfo(kind).max:
        # The range itself is not a number of the type.
        parts.uniform_(low / 2, high / 2).mul_(2)
    else:
        parts.uniform_(low, high)
    return made


def _bounds(low: float | None, high: float | None, kind: dtype) -> tuple[float, float]:
    """Return the range to draw from: the given one or the default, inside of what the type can hold."""
    if kind is torch.bool:
        lowest, highest, usual = 0, 2, (0, 2)
    elif kind.is_floating_point or kind.is_complex:
        lowest, highest, usual = torch.finfo(kind).min, torch.finfo(kind).max, (-9, 9)
    else:
        # No draw reaches the greatest 64-bit integer: its bound would be one more.
        limits = torch.iinfo(kind)
        lowest, highest, usual = limits.min, limits.max + (kind is not torch.int64), (-9, 10)
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and (kind.is_floating_point or kind.is_complex):
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated since 2.1 "
            "and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= highest:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), "
            f"but {kind} only supports [{lowest}, {highest})"
        )
    return min(max(low, lowest), highest), min(max(high, lowest), highest)
