"""Complex tensors from real ones and back: views of the parts, conjugates, polar form."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...ir.dtypes import bfloat16, bool_
from ...ir.layouts import complex_layout, contiguous_strides, layout, part_layout, real_layout
from ...tensors.memory_formats import dense_layout
from ...tensors.read_only import ReadOnly
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import attach, refuse_halves, require_tensor, type_title
from ..creation.factories import ones_like
from ..elementwise.call import default_float
from ..in_place.writing import make_in_place
from ..movement.views import make_view, transpose
from ..outputs import finish_out
from .interleaving import ZERO, join

if TYPE_CHECKING:
    from ...tensors.type_aliases import Number


@operation("view", method=False)
def view_as_real(input: Tensor) -> Tensor:
    """The same memory with a last dimension of real and imaginary part.

    Raises:
        RuntimeError: the input is not complex.
    """
    if not input.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return make_view(
        input,
        real_layout(input._layout),
        "ViewAsRealBackward0",
        lambda grad: complex_view(grad.contiguous()),
        input.dtype.to_real(),
    )


@operation("view", method=False)
def view_as_complex(input: Tensor) -> Tensor:
    """The same memory as complex numbers, whose parts are the last dimension.

    Raises:
        RuntimeError: the input is not float16, float32 or float64, or its parts do not lie side by side.
    """
    if not _is_part(input):
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            f"{input.dtype.name.capitalize()}"
        )
    return make_view(
        input,
        complex_layout(input._layout),
        "ViewAsComplexBackward0",
        lambda grad: view_as_real(as_complex(grad)),
        input.dtype.to_complex(),
    )


def _is_part(tensor: Tensor) -> bool:
    """Return whether a tensor's elements can be parts of complex numbers."""
    return tensor.dtype.is_floating_point and tensor.dtype is not bfloat16


def complex_view(floats: Tensor) -> Tensor:
    """Return the result of an operation on real views as complex numbers: their own memory, in row-major order or as dense."""
    source = floats._layout
    if source.is_contiguous:
        target = layout(source.shape[:-1], contiguous_strides(source.shape[:-1]), source.offset // 2)
    elif source.strides[-1] == 1 and not any(
        stride % 2 and size != 1 for size, stride in zip(source.shape[:-1], source.strides, strict=False)
    ):
        strides = tuple(max(stride // 2, 1) for stride in source.strides[:-1])
        target = layout(source.shape[:-1], strides, source.offset // 2)
    else:
        return complex_view(floats.contiguous())
    result = Tensor._from_storage(floats._storage, target, floats.dtype.to_complex(), floats.device)
    return attach(result, "ViewAsComplexBackward0", (floats,), lambda grad: view_as_real(as_complex(grad)))


def as_complex(input: Tensor) -> Tensor:
    """Return a tensor in the complex type of its precision, integers in that of the default type."""
    kind = input.dtype if input.dtype.category >= 2 else default_float[0]
    return input.to(kind.to_complex())


def part(input: Tensor, number: int) -> Tensor:
    """Return a view of the real (0) or imaginary (1) parts."""
    title = "SelectBackward0"

    def run_backward(grad: Tensor) -> Tensor:
        return join(ZERO, grad) if number else join(grad, ZERO)

    return make_view(input, part_layout(input._layout, number), title, run_backward, input.dtype.to_real())


@operation("view", method=False)
def real(input: Tensor) -> Tensor:
    """A view of the real parts; a real tensor itself."""
    return part(input, 0) if input.dtype.is_complex else input


@operation("view", method=False)
def imag(input: Tensor) -> Tensor:
    """A view of the imaginary parts.

    Raises:
        RuntimeError: the input is real.
    """
    if not input.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return part(input, 1)


def _part_property(function: Any) -> property:
    def write(self: Tensor, value: Any) -> None:
        function(self).copy_(value)

    return property(function, write, doc=function.__doc__)


Tensor.real = _part_property(real)  # type: ignore[attr-defined]
Tensor.imag = _part_property(imag)  # type: ignore[attr-defined]


@operation("elementwise", method=False)
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``real + i * imag``, broadcast to each other.

    Raises:
        RuntimeError: the parts are not of one type of float16, float32 and float64.
    """
    for number, each in enumerate((real, imag)):
        require_tensor("complex", ("real", "imag")[number], number + 1, each)
    _require_parts(real, imag)
    return _into(join(real, imag), out)


def _require_parts(first: Tensor, second: Tensor) -> None:
    if not (_is_part(first) and _is_part(second)):
        names = f"{_title(first)} and {_title(second)}"
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {names}")
    if first.dtype is not second.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {_title(first)} but got scalar type {_title(second)} for second argument"
        )


def _title(tensor: Tensor) -> str:
    return type_title(tensor)


def _into(result: Tensor, out: Tensor | None) -> Tensor:
    if out is None:
        return result

    if out.dtype is not result.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {_title(result)} but got scalar type {_title(out)} for argument 'out'"
        )
    return finish_out(result, out)


@operation("elementwise", method=False, title="PolarBackward0")
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``abs * (cos(angle) + i * sin(angle))``.

    Raises:
        NotImplementedError: the arguments are of float16.
        RuntimeError: the arguments are not of one type of float16, float32 and float64.
    """
    for number, each in enumerate((abs, angle)):
        require_tensor("polar", ("abs", "angle")[number], number + 1, each)
    _require_parts(abs, angle)
    refuse_halves("polar_cpu", abs)
    return _into(join(abs * angle.cos(), abs * angle.sin()), out)


@operation("elementwise")
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate, computed; a real tensor itself."""
    result = input
    if input.dtype.is_complex:
        # Of nothing its order of dimensions stays.
        target = None if input.numel() else dense_layout(input._layout, None)
        result = join(part(input, 0), -part(input, 1), target, title="ConjPhysicalBackward0")
    return _into(result, out)


@operation("elementwise")
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; it is computed, not a flag on a view."""
    return conj_physical(input)


def _conj_in_place(self: Tensor) -> Tensor:
    """Replace the elements by their conjugates."""
    if self.dtype.is_complex:
        part(self, 1).neg_()
    return self


Tensor.conj_physical_ = _conj_in_place  # type: ignore[attr-defined]


@operation("view")
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are computed at once."""
    require_tensor("resolve_conj", "input", 1, input)
    return input


@operation("view")
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negatives are computed at once."""
    require_tensor("resolve_neg", "input", 1, input)
    return input


@operation("view")
def is_conj(input: Tensor) -> bool:
    """Whether the tensor is a conjugate yet to be computed: never."""
    del input
    return False


@operation("view")
def is_neg(input: Tensor) -> bool:
    """Whether the tensor is a negative yet to be computed: never."""
    del input
    return False


@operation("elementwise")
def isreal(input: Tensor) -> Tensor:
    """Whether elements have no imaginary part."""
    if input.dtype.is_complex:
        return part(input, 1) == 0
    return ones_like(input, dtype=_bool())


def _bool() -> Any:
    return bool_


@operation("view")
def adjoint(input: Tensor) -> Tensor:
    """The conjugate of matrices with their last two dimensions exchanged."""
    if input.ndim == 0:
        return input
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor."
        )
    return conj(transpose(input, -2, -1))


def _adjoint_property(name: str, doc: str) -> None:
    def getter(self: Tensor) -> Tensor:
        if name == "H" and self.ndim not in (0, 2):
            raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
        return adjoint(self)

    setattr(Tensor, name, ReadOnly(getter, doc, name))


_adjoint_property("H", "The conjugate transpose of a matrix.")
_adjoint_property("mH", "The conjugate transposes of matrices.")


@operation("elementwise")
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of complex numbers in radians; of real ones 0, or pi where negative."""
    # A circle: that module imports this one.
    from .arithmetic import angle_of

    return finish_out(angle_of(input), out, (input,))


@operation("elementwise", title="SgnBackward0")
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input / |input|``, 0 at 0; the sign of real numbers."""
    if not input.dtype.is_complex:
        return e.sign(input, out=out)
    # A circle: that module imports this one.
    from .arithmetic import sgn_of

    return finish_out(sgn_of(input), out, exact=True)


def _in_place() -> None:
    Tensor.sgn_ = make_in_place(sgn, "sgn_")  # type: ignore[attr-defined]


_in_place()


def number_parts(value: Number) -> tuple[float, float | None]:
    """Return a Python number's real part, and its imaginary part or None for a real number."""
    return (value.real, value.imag) if isinstance(value, builtins.complex) else (float(value), ZERO)
