"""Rules of operations that move elements: they act on the real view, or on each part."""

from __future__ import annotations

import cmath
from typing import TYPE_CHECKING, Any

from ...dispatch.titles import titled
from ...ir.dtypes import dtype as ElementType
from ...ir.host_bytes import C_NAMES, check_number, real_number
from ...ir.layouts import existing_dimension, wrap_dimension
from ...record.devices import device as Device
from ...tensors.tensor import Tensor
from ..common import as_leaf, dtype_title, no_view, row_major, sizes_from, type_title
from ..creation.factories import asked
from ..creation.ranges import linspace
from ..elementwise.call import default_float
from ..outputs import into
from .arithmetic import split
from .interleaving import join
from .views import as_complex, complex_view, view_as_real

if TYPE_CHECKING:
    from ...tensors.type_aliases import DeviceLike


def by_parts(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], values: tuple[Any, ...] = ()) -> Tensor:
    """Return a function applied to the real parts and to the imaginary parts of its complex arguments, joined.

    ``values`` names or numbers the arguments that are elements though they may be Python numbers.
    """
    tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
    kind = next((each.dtype.to_real() for each in tensors if each.is_complex()), None)
    if kind is None:
        # Only a number is complex.
        of = tensors[0].dtype
        plain = [real_number(each, of) if each.__class__ is complex else each for each in (*args, *kwargs.values())]
        return function(*plain[: len(args)], **dict(zip(kwargs, plain[len(args) :], strict=True)))

    def chosen(key: Any, value: Any, part: int) -> Any:
        is_element = isinstance(value, Tensor) and value.is_complex()
        if not is_element and key not in values:
            return value
        if not isinstance(value, Tensor):
            check_number(value, kind.to_complex())
        found = split(value)[part]
        return 0.0 if found is None else found.to(kind) if isinstance(found, Tensor) else found

    out = kwargs.pop("out", None)
    parts = [
        function(
            *(chosen(number, each, part) for number, each in enumerate(args)),
            **{name: chosen(name, each, part) for name, each in kwargs.items()},
        )
        for part in (0, 1)
    ]
    return into(join(*parts), out, True)


def join_pieces_rule(function: Any, pieces: list[Tensor], dim: int, row_major: bool = False) -> Tensor:
    return complex_view(function([view_as_real(as_complex(each)) for each in pieces], dim, row_major))


@titled("FlipBackward0")
def flip_rule(function: Any, input: Tensor, *dims: Any, **named: Any) -> Tensor:
    chosen = [wrap_dimension(each, input.ndim) for each in sizes_from((named["dims"],) if "dims" in named else dims)]
    # A 0-d tensor takes 0 for a dimension; its real view has one of another meaning.
    chosen = chosen if input.ndim else []
    return complex_view(function(view_as_real(input), chosen)) if input.numel() else input.clone()


def roll_rule(function: Any, input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    if dims is None or (isinstance(dims, tuple | list) and not dims):
        return roll_rule(function, input.reshape(-1), shifts, 0).reshape(input.shape)
    chosen = [existing_dimension(each, input.ndim) for each in ([dims] if isinstance(dims, int) else dims)]
    if not input.numel():
        return input.clone()
    amounts = [shifts] if isinstance(shifts, int) else list(shifts)
    return complex_view(function(view_as_real(input), amounts, chosen))


def triangle_rule(function: Any, input: Tensor, diagonal: int, upper: bool) -> Tensor:
    return by_parts(function, (input, diagonal, upper), {})


def place_inside_rule(
    function: Any, input: Tensor, before: tuple[int, ...], shape: tuple[int, ...], value: Any, steps: tuple[int, ...],
    ordered: bool,
) -> Tensor:  # fmt: skip
    value = value.item() if isinstance(value, Tensor) else value
    if isinstance(value, complex) and value.imag:
        return by_parts(function, (input, before, shape, value, steps, ordered), {}, (3,))
    if value:
        return by_parts(function, (input, before, shape, value.real, steps, ordered), {}, (3,))
    return complex_view(function(view_as_real(as_complex(input)), (*before, 0), (*shape, 2), 0, (*steps, 1), False))


def take_positions_rule(
    function: Any, input: Tensor, dim: int, index: Tensor, title: str, strides: tuple[int, ...] | None = None,
    report: Any = None,
) -> Tensor:  # fmt: skip
    if strides is not None:
        strides = (*(2 * each for each in strides), 1)
    return complex_view(function(view_as_real(input), dim, index, title, strides, report))


def gather_rule(function: Any, *args: Any, **kwargs: Any) -> Tensor:
    return by_parts(function, args, kwargs)


def scatter_rule(function: Any, *args: Any, **kwargs: Any) -> Tensor:
    _require_one_type(*args[:4], **kwargs)
    if kwargs.get("reduce") == "multiply":
        return _scattered_multiples(*args, **kwargs)
    return by_parts(function, args, kwargs, (3, "value", "src"))


def _scattered_multiples(
    input: Tensor, dim: int, index: Tensor, src: Tensor | complex | None = None, *, value: complex | None = None,
    reduce: str, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Multiply what an index sends to one place, by a tensor's elements or one number."""
    source = value if src is None else src
    if not isinstance(source, Tensor):
        source = input.new_full((), source).expand(index._layout.shape)
    return into(_scattered_product(input, dim, index, source, True), out, True)


def _require_one_type(
    input: Tensor, dim: int, index: object = None, src: object = None, *_: object, **named: object
) -> None:
    wrap_dimension(dim, input.ndim)
    if isinstance(src, Tensor) and src.dtype is not input.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")


def scatter_add_rule(function: Any, *args: Any, **kwargs: Any) -> Tensor:
    _require_one_type(*args[:4], **kwargs)
    return by_parts(function, args, kwargs)


def scatter_reduce_rule(
    function: Any, input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True,
    out: Any = None,
) -> Tensor:  # fmt: skip
    _require_one_type(input, dim, index, src)
    if reduce in ("sum", "mean"):
        return by_parts(function, (input, dim, index, src, reduce), {"include_self": include_self, "out": out})
    if reduce != "prod" and index.numel():
        raise NotImplementedError(
            f"\"scatter_reduce\" with reduce='{reduce}' not implemented for '{type_title(input)}'"
        )
    return into(_scattered_product(input, dim, index, src, include_self), out, True)


def _scattered_product(input: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool) -> Tensor:
    """Multiply what an index sends to one place: along the dimension one position after the other, each to places of its own."""
    if not index.numel():
        return row_major(input.clone())
    if not input.ndim:
        line = [each.reshape(1) for each in (input, index, src)]
        return no_view(_scattered_product(line[0], 0, line[1], line[2], include_self).reshape(()))
    axis = wrap_dimension(dim, input.ndim)
    result = input.clone() if include_self else input.scatter(axis, index, 1)
    factors = src[tuple(slice(size) for size in index._layout.shape)]
    for number in range(index._layout.shape[axis]):
        places = index.narrow(axis, number, 1)
        result = result.scatter(axis, places, result.gather(axis, places) * factors.narrow(axis, number, 1))
    return result


def write_slices_rule(function: Any, *args: Any, **kwargs: Any) -> Tensor:
    return by_parts(function, args, kwargs)


def index_fill_rule(function: Any, *args: Any, **kwargs: Any) -> Tensor:
    if not args[0].is_complex():
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    return by_parts(function, args, kwargs, (3, "value"))


def eye_rule(
    function: Any, *args: Any, dtype: Any = None, out: Any = None, requires_grad: bool = False, **named: Any
) -> Tensor:
    kind, named["device"] = asked(dtype, named.get("device"), out, default_float[0])
    result = function(*args, dtype=kind.to_real(), **named).to(kind)
    if out is not None:
        return into(result, out)
    return as_leaf(result, requires_grad)


def linspace_rule(
    function: Any,
    start: Any,
    end: Any,
    *args: Any,
    dtype: Any = None,
    out: Any = None,
    requires_grad: bool = False,
    **named: Any,
) -> Tensor:
    kind, named["device"] = _complex_kind("linspace", dtype, named.get("device"), out)
    bounds = [each.item() if isinstance(each, Tensor) else each for each in (start, end)]
    real, imag = (
        function(
            *(complex(each).real if part == 0 else complex(each).imag for each in bounds),
            *args,
            dtype=kind.to_real(),
            **named,
        )
        for part in (0, 1)
    )
    result = join(real, imag)
    if out is not None:
        return into(result, out)
    return as_leaf(result, requires_grad)


def logspace_rule(
    function: object,
    start: Tensor | complex,
    end: Tensor | complex,
    steps: int,
    base: float = 10.0,
    *,
    dtype: ElementType | None = None,
    out: Tensor | None = None,
    requires_grad: bool = False,
    device: DeviceLike = None,
    layout: object = None,
    pin_memory: bool = False,
) -> Tensor:
    """``base`` to the powers evenly spaced from ``start`` to ``end``, of shape [steps], as C++ computes powers of complex numbers."""
    kind, place = _complex_kind("logspace", dtype, device, out)
    exponents = linspace(start, end, steps, dtype=kind, device=place, layout=layout, pin_memory=pin_memory)
    result = (exponents * cmath.log(base)).exp() if base else exponents * 0
    if out is not None:
        return into(result, out)
    return as_leaf(result, requires_grad)


def _complex_kind(
    name: str, dtype: ElementType | None, place: DeviceLike, out: Tensor | None
) -> tuple[ElementType, Device]:
    """Return the type and the device of numbers between ends of which one is complex, or that are asked for in a complex type.

    Raises:
        RuntimeError: the type asked for is not complex.
    """
    usual = default_float[0].to_complex()
    kind, place = asked(dtype, place, out, usual)
    if not kind.is_complex:
        inferred, passed = C_NAMES[usual.name], dtype_title(kind)
        raise RuntimeError(f"torch.{name}(): inferred dtype {inferred} can't be safely cast to passed dtype {passed}")
    return kind, place


def resampled_rule(function: Any, input: Tensor, tables: Any, *rest: Any, **options: Any) -> Tensor:
    return complex_view(function(view_as_real(input), [*tables, None], *rest, **options))


def patches_rule(function: Any, *args: Any) -> Tensor:
    return by_parts(function, args, {})


def overlapping_sum_rule(function: Any, *args: Any) -> Tensor:
    return by_parts(function, args, {})
