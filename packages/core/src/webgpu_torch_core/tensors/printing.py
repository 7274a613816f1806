"""The text of a tensor, as PyTorch prints it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from webgpu_torch_core.ir.dtypes import bool_, dtype, int64

_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


class PrintOptions:
    """How tensors are printed; the fields are the arguments of :func:`set_printoptions`."""

    __slots__ = ("edgeitems", "linewidth", "precision", "sci_mode", "threshold")

    def __init__(
        self, precision: int = 4, threshold: float = 1000, edgeitems: int = 3, linewidth: int = 80,
        sci_mode: bool | None = None,
    ) -> None:  # fmt: skip
        self.precision = precision
        self.threshold = threshold
        self.edgeitems = edgeitems
        self.linewidth = linewidth
        self.sci_mode = sci_mode


PRINT_OPTIONS = PrintOptions()
"""The options that hold when a call names no others."""


def set_printoptions(
    precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """Change how tensors are printed.

    ``precision``: digits after the point; ``threshold``: elements from which on a tensor is summarised;
    ``edgeitems``: elements kept at both ends of a dimension then; ``linewidth``: characters per line; ``profile``:
    ``"default"``, ``"short"`` or ``"full"``, which the other arguments refine; ``sci_mode``: scientific notation
    always or never, and ``None`` (which an omitted argument means, too) where the numbers call for it. Raises
    ValueError for another profile.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile must be one of {sorted(_PROFILES)}, got {profile!r}")
        for name, value in _PROFILES[profile].items():
            setattr(PRINT_OPTIONS, name, value)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            setattr(PRINT_OPTIONS, name, value)
    PRINT_OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, object]:
    """Return the options as a dictionary that ``set_printoptions(**options)`` takes back."""
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    return {name: getattr(PRINT_OPTIONS, name) for name in names}


class printoptions:
    """A context manager: options, as for :func:`set_printoptions`, that hold within a ``with`` block."""

    def __init__(self, **options: object) -> None:
        self._options = options

    def __enter__(self) -> None:
        self._saved = get_printoptions()
        set_printoptions(**self._options)  # type: ignore[arg-type]

    def __exit__(self, kind: object, value: object, traceback: object) -> None:
        set_printoptions(**self._saved)  # type: ignore[arg-type]


class _Formatter:
    """Chooses one notation and width for all numbers of a tensor."""

    def __init__(self, values: Sequence[Any], is_floating_point: bool, options: PrintOptions) -> None:
        self._is_floating_point = is_floating_point
        self._precision = options.precision
        self._integral = True
        self._scientific = False
        self.width = 1
        if not is_floating_point:
            self.width = max((len(str(value)) for value in values), default=1)
            return
        finite = [value for value in values if value and math.isfinite(value)]
        if not finite:
            return
        smallest = min(abs(value) for value in finite)
        largest = max(abs(value) for value in finite)
        self._integral = all(value == math.floor(value) for value in finite)
        if options.sci_mode is None:
            self._scientific = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
        else:
            self._scientific = options.sci_mode
        self.width = max(1, *(len(self._notation(value)) for value in finite))

    def _notation(self, value: float) -> str:
        if self._scientific:
            return f"{value:.{self._precision}e}"
        if self._integral:
            # The point tells a floating point tensor from an integral one.
            return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        return f"{value:.{self._precision}f}"

    def format(self, value: float) -> str:
        """Return a number, right-aligned."""
        return (self._notation(value) if self._is_floating_point else str(value)).rjust(self.width)


class _Printer:
    """Lays out the elements of one tensor: brackets, line breaks, and what a summary leaves out."""

    def __init__(self, values: Sequence[Any], shape: tuple[int, ...], dtype: dtype, options: PrintOptions) -> None:
        self._values = values
        self._shape = shape
        self._options = options
        self._summarize = len(values) > options.threshold
        shown = [values[index] for index in self._shown(0, 0)]
        if dtype.is_complex:
            self._formatters = (
                _Formatter([value.real for value in shown], True, options),
                _Formatter([value.imag for value in shown], True, options),
            )
            self._element_length = self._formatters[0].width + self._formatters[1].width + 3
        else:
            self._formatters = (_Formatter(shown, dtype.is_floating_point, options),)
            self._element_length = self._formatters[0].width + 2

    def _split(self, size: int) -> bool:
        return self._summarize and size > 2 * self._options.edgeitems

    def _positions(self, size: int) -> list[int]:
        """Return the indices of a dimension that are shown."""
        if not self._split(size):
            return list(range(size))
        edge = self._options.edgeitems
        return [*range(edge), *range(size - edge, size)]

    def _shown(self, axis: int, base: int) -> list[int]:
        """Return the flat indices of the elements that are shown below ``base``."""
        bases = [base]
        for size in self._shape[axis:]:
            positions = self._positions(size)
            bases = [each * size + position for each in bases for position in positions]
        return bases

    def _element(self, index: int) -> str:
        value = self._values[index]
        if len(self._formatters) == 1:
            return self._formatters[0].format(value)
        imaginary = self._formatters[1].format(value.imag).lstrip() + "j"
        sign = "" if imaginary[0] in "+-" else "+"
        return self._formatters[0].format(value.real) + sign + imaginary

    def text(self, indent: int, axis: int = 0, base: int = 0) -> str:
        """Return the part of the tensor that starts at ``base``, with ``axis`` as its outermost dimension."""
        remaining = len(self._shape) - axis
        if remaining == 0:
            return self._element(base)
        if remaining == 1:
            return self._vector(indent, base)
        size = self._shape[axis]
        slices = [self.text(indent + 1, axis + 1, base * size + index) for index in self._positions(size)]
        if self._split(size):
            slices.insert(self._options.edgeitems, "...")
        return "[" + ("," + "\n" * (remaining - 1) + " " * (indent + 1)).join(slices) + "]"

    def _vector(self, indent: int, base: int) -> str:
        size = self._shape[-1]
        if self._summarize and not self._options.edgeitems:
            pieces = ["..."]
        else:
            pieces = [self._element(base * size + index) for index in self._positions(size)]
            if self._split(size):
                pieces.insert(self._options.edgeitems, " ...")
        per_line = max(1, (self._options.linewidth - indent) // self._element_length)
        lines = [", ".join(pieces[start : start + per_line]) for start in range(0, len(pieces), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _suffixes(
    shape: tuple[int, ...], dtype: dtype, empty: bool, has_values: bool, is_default_dtype: bool, options: PrintOptions
) -> list[str]:
    """Return the ``size`` and ``dtype`` that the elements do not tell."""
    size = "size=" + str(shape)
    # Only a floating type can be the default of a tensor without elements.
    is_default_float = is_default_dtype and dtype.is_floating_point
    if not has_values or empty:
        result = [size] if not has_values or len(shape) != 1 else []
        return result if is_default_float else [*result, f"dtype={dtype!r}"]
    result = [] if options.edgeitems else [size]
    if not (is_default_dtype or dtype is int64 or dtype is bool_):
        result.append(f"dtype={dtype!r}")
    return result


def format_tensor(
    values: Sequence[Any] | None, dtype: dtype, shape: Sequence[int], *, requires_grad: bool = False,
    grad_fn_name: str | None = None, device: str | None = None, is_default_dtype: bool | None = None,
    options: PrintOptions | None = None, prefix: str = "tensor(", contents: str | None = None,
    tangent: str | None = None,
) -> str:  # fmt: skip
    """Return the text of a tensor, equal to PyTorch's.

    ``values``: all elements in row-major order as Python numbers (float32 as the double of equal value), or None for
    a tensor without data (device ``meta``). ``device``: the device's name, or None where it goes without saying.
    ``is_default_dtype``: whether ``dtype`` is the default type, or the complex type that belongs to it; by default
    true of float32 and complex64. ``contents``: what stands in place of the elements. ``grad_fn_name``: the class of the node that made the tensor. ``tangent``: the text of its tangent. Raises ValueError
    when the number of values is not that of ``shape``.
    """
    options = PRINT_OPTIONS if options is None else options
    shape = tuple(shape)
    count = math.prod(shape)
    if values is not None and len(values) != count:
        raise ValueError(f"a tensor of shape {shape} has {count} elements, got {len(values)}")
    if is_default_dtype is None:
        is_default_dtype = dtype.name in ("float32", "complex64")
    if contents is not None:
        body = contents
    elif values is None:
        body = "..."
    else:
        body = _Printer(values, shape, dtype, options).text(len(prefix)) if count else "[]"
    suffixes = [] if device is None else [f"device='{device}'"]
    suffixes += _suffixes(shape, dtype, count == 0, values is not None, is_default_dtype, options)
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return _join(prefix + body, suffixes, len(prefix), options.linewidth)


def format_with(values: Sequence[float], dtype: dtype, shape: Sequence[int], suffixes: list[str]) -> str:
    """Return the text of a tensor of which a class tells itself what follows its elements."""
    body = _Printer(values, tuple(shape), dtype, PRINT_OPTIONS).text(len("tensor(")) if values else "[]"
    return _join("tensor(" + body, suffixes, len("tensor("), PRINT_OPTIONS.linewidth)


def _join(text: str, suffixes: list[str], indent: int, linewidth: int) -> str:
    """Return ``text`` with its suffixes, on a new line where they do not fit, and the closing parenthesis."""
    # PyTorch's count for the last line: where there is only one line, two more than its length.
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"
