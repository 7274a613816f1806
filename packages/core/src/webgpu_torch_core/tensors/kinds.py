"""What code asks of tensors that may be sparse, quantised, pinned or on other makers' devices; ours never are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ..notices import refuse_place_of_copy, warn, warn_once
from .read_only import Constant, ReadOnly
from .storage import Size

if TYPE_CHECKING:
    from .tensor import Tensor


class layout:
    """How a tensor's elements are stored; here always :data:`strided`."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name
        _LAYOUTS[f"torch.{name}"] = self

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> tuple[Callable[[str], layout], tuple[str]]:
        return layout_of, (repr(self),)


_LAYOUTS: dict[str, layout] = {}


def layout_of(name: str) -> layout:
    """Return the layout of a name such as ``torch.sparse_coo``.

    Raises:
        RuntimeError: there is none.
    """
    if name not in _LAYOUTS:
        raise RuntimeError(f"there is no layout {name}; there are {', '.join(_LAYOUTS)}")
    return _LAYOUTS[name]


#: the layout of every tensor: elements at offsets that strides give.
strided = layout("strided")


class TensorKinds:
    """The answers of dense tensors on the CPU and on WebGPU devices."""

    __slots__ = ()

    #: False: the tensor is on no device of that maker.
    is_cuda, is_xpu, is_mps, is_mtia, is_ipu, is_maia, is_vulkan, is_xla, is_mkldnn = (
        Constant(False) for _ in range(9)
    )
    #: False: the tensor holds all of its elements, in one block, as they are.
    is_quantized, is_nested, is_sparse_csr = Constant(False), Constant(False), Constant(False)
    #: How the elements are stored: always :data:`strided`.
    layout: Any = Constant(strided)
    #: None: tensors have no names.
    name: Any = Constant(None)
    #: Where the elements are.
    device: Any
    #: The type of the elements.
    dtype: Any

    @property
    def volatile(self) -> bool:
        """False, as ever since PyTorch 0.4; deprecated."""
        warn_once("volatile was removed (Variable.volatile is always False)")
        return False

    @ReadOnly
    def is_cpu(self) -> bool:
        """Whether the tensor is on the CPU."""
        return self.device.type == "cpu"

    def get_device(self) -> int:
        """Return the index of the tensor's device, -1 for the CPU."""
        return -1 if self.device.index is None else self.device.index

    def pin_memory(self, device: Any = None) -> Any:
        """Return the tensor: copies to WebGPU devices need no pinned memory."""
        return self

    def is_pinned(self, device: Any = None) -> bool:
        """Return False."""
        return False

    def share_memory_(self) -> Any:
        """Return the tensor: worker processes receive copies."""
        return self

    def is_shared(self) -> bool:
        """Return False."""
        return False

    def to_dense(self, dtype: Any = None, *, masked_grad: bool = True) -> Any:
        """Return the tensor, which is dense."""
        return self if dtype is None else self.to(dtype)  # type: ignore[attr-defined]

    def dense_dim(self) -> int:
        """Return the number of dimensions, all of them dense."""
        return self.dim()  # type: ignore[attr-defined]

    @property
    def _storing(self) -> tuple[object, ...]:
        """How elements are stored, or that there are none: a tensor takes only another's memory of which this is equal."""
        return self.layout, self.device.type == "meta", self.is_quantized, self.is_nested

    def _require_storing(self, value: Tensor) -> None:
        """Refuse another tensor's memory.

        Raises:
            RuntimeError: its elements are stored in another way.
        """
        if value._storing != self._storing:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
            )

    def _as_cotangent(self, gradient: Tensor) -> Tensor:
        """Return what a backward pass starts from this tensor with; a sparse one's passes know its values only."""
        return gradient

    def _as_gradient(self, found: Tensor) -> Tensor:
        """Return what a backward pass has found as a gradient of this tensor; a sparse one's passes know its values only."""
        return found

    def sparse_dim(self) -> int:
        """Return 0."""
        return 0

    def is_distributed(self) -> bool:
        """Return False."""
        return False

    def is_coalesced(self) -> NoReturn:
        """Refuse: only sparse tensors are coalesced or not.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("is_coalesced expected sparse coordinate tensor layout but got Strided")

    def indices(self) -> NoReturn:
        """Refuse: only sparse tensors by coordinates have positions ``[sparse dimensions, n]``.

        Raises:
            RuntimeError: always.
        """
        self._of_another_layout("indices", "coordinate")

    def values(self) -> NoReturn:
        """Refuse: only sparse tensors have values ``[n, ...]``.

        Raises:
            RuntimeError: always.
        """
        self._of_another_layout("values", "")

    def crow_indices(self) -> NoReturn:
        """Refuse: only sparse tensors with compressed rows have pointers to them, ``[rows + 1]``.

        Raises:
            RuntimeError: always.
        """
        self._of_another_layout("crow_indices", "row compressed")

    def col_indices(self) -> NoReturn:
        """Refuse: only sparse tensors with compressed rows have columns of their values, ``[n]``.

        Raises:
            RuntimeError: always.
        """
        self._of_another_layout("col_indices", "row compressed")

    def ccol_indices(self) -> NoReturn:
        """Refuse: only sparse tensors with compressed columns have pointers to them, ``[columns + 1]``.

        Raises:
            RuntimeError: always.
        """
        self._of_another_layout("ccol_indices", "column compressed")

    def row_indices(self) -> NoReturn:
        """Refuse: only sparse tensors with compressed columns have rows of their values, ``[n]``.

        Raises:
            RuntimeError: always.
        """
        self._of_another_layout("row_indices", "column compressed")

    def dequantize(self) -> Tensor:
        """Return the numbers as float32."""
        return self.float()  # type: ignore[attr-defined]

    def int_repr(self) -> NoReturn:
        """Refuse: only quantised tensors hold integers that stand for numbers.

        Raises:
            NotImplementedError: always.
        """
        self._not_quantized("int_repr")

    def qscheme(self) -> NoReturn:
        """Refuse: only quantised tensors have a way in which integers stand for numbers.

        Raises:
            NotImplementedError: always.
        """
        self._not_quantized("qscheme")

    def q_scale(self) -> NoReturn:
        """Refuse: only quantised tensors have a scale.

        Raises:
            NotImplementedError: always.
        """
        self._not_quantized("q_scale")

    def q_zero_point(self) -> NoReturn:
        """Refuse: only quantised tensors have a zero point.

        Raises:
            NotImplementedError: always.
        """
        self._not_quantized("q_zero_point")

    def q_per_channel_scales(self) -> NoReturn:
        """Refuse: only quantised tensors have scales, one for each position of a dimension.

        Raises:
            NotImplementedError: always.
        """
        self._not_quantized("q_per_channel_scales")

    def q_per_channel_zero_points(self) -> NoReturn:
        """Refuse: only quantised tensors have zero points, one for each position of a dimension.

        Raises:
            NotImplementedError: always.
        """
        self._not_quantized("q_per_channel_zero_points")

    def q_per_channel_axis(self) -> NoReturn:
        """Refuse: only quantised tensors have a dimension for each of whose positions there is a scale.

        Raises:
            NotImplementedError: always.
        """
        self._not_quantized("q_per_channel_axis")

    def _not_quantized(self, asked: str) -> NoReturn:
        raise NotImplementedError(
            f"{asked}() is for quantized tensors, not for one of {self.dtype}: torch.quantize_per_tensor makes one"
        )

    def _of_another_layout(self, asked: str, wanted: str) -> NoReturn:
        names = {"sparse_coo": "Sparse", "strided": "Strided"}
        own = str(self.layout).removeprefix("torch.")
        own = names.get(own, "".join(each.capitalize() for each in own.split("_")))
        raise RuntimeError(f"{asked} expected sparse {wanted}{' ' if wanted else ''}tensor layout but got {own}")

    def const_data_ptr(self) -> int:
        """Return the address of the first element, as :meth:`data_ptr`."""
        return self.data_ptr()  # type: ignore[attr-defined]

    def dim_order(self, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """Return the dimensions from the one that varies slowest in memory to the fastest.

        ``ambiguity_check``: True refuses tensors that have several such orders; a list of memory formats only those that do
        not have exactly one of these formats.

        Raises:
            RuntimeError: refused.
            TypeError: neither a bool nor a list of memory formats.
        """
        formats: Any = [] if isinstance(ambiguity_check, bool) else ambiguity_check
        if not isinstance(formats, list) or any(type(each).__name__ != "memory_format" for each in formats):
            raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
        strides: Any = self.stride()  # type: ignore[attr-defined]
        sizes: Any = self.shape  # type: ignore[attr-defined]
        several = 1 in sizes or any(strides[each] == strides[each + 1] for each in range(len(strides) - 1))
        matching = [each for each in formats if self.is_contiguous(memory_format=each)]  # type: ignore[attr-defined]
        if ambiguity_check is not False and several and len(matching) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
            )
        return tuple(sorted(range(len(strides)), key=lambda dim: -strides[dim]))

    def cuda(self, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> NoReturn:
        """Refuse: the GPU is reached through WebGPU.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("there is no CUDA device: this library reaches the GPU through WebGPU; use .to('webgpu')")

    def new(self, *args: Any, device: Any = None, **options: Any) -> Any:
        """Return a tensor of this one's type from sizes (``size``) or data, as PyTorch's legacy constructor."""
        if options.keys() == {"size"} and not args:
            return self.new_empty(options["size"], device=device)  # type: ignore[attr-defined]
        if options:
            raise TypeError(f"new() received an invalid combination of arguments: {', '.join(options)}")
        if len(args) == 1 and not isinstance(args[0], int | Size):
            if hasattr(args[0], "_storage"):
                refuse_place_of_copy("new of the form tensor.new", device)
            return self.new_tensor(args[0], device=device)  # type: ignore[attr-defined]
        return self.new_empty(*(args or (0,)), device=device)  # type: ignore[attr-defined]

    @ReadOnly
    def output_nr(self) -> int:
        """Which of its node's outputs the tensor is."""
        return self._output_number  # type: ignore[attr-defined]


def check_gradient(tensor: Tensor, value: Tensor) -> None:
    """Check a gradient that is assigned to a tensor.

    Raises:
        TypeError: it is no tensor.
        RuntimeError: it is the tensor itself, or is of another size or type, or elsewhere.
    """
    if not hasattr(value, "_storage"):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
    if value is tensor:
        raise RuntimeError("can't assign Variable as its own grad")
    if value.shape != tensor.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size '{list(tensor.shape)}'. "
            "Please ensure that the gradient and the tensor are the same size"
        )
    if value.dtype is not tensor.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{value.dtype.word}' to a tensor with grad_dtype "
            f"'{tensor.dtype.title}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You "
            "can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. Set grad_dtype "
            "with caution. Diverging the dtypes of a tensor and its gradient may break downstream systems that assume they "
            "match."
        )
    if value.device != tensor.device:
        raise RuntimeError(f"assigned grad has data located on a different device: {value.device}, not {tensor.device}")


def warn_of_inner_gradient() -> None:
    """Warn that a tensor which is no leaf is asked for its gradient."""
    warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated "
        "during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use "
        ".retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf "
        "Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information."
    )
