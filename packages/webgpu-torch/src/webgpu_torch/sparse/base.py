"""What sparse tensors of every layout share: sizes, values that take part in graphs, and who answers calls.

Loaded when the first one is made: from then on calls look for them among their arguments.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core import layout as Layout
from webgpu_torch_core.autograd.engine import backward
from webgpu_torch_core.dispatch.overrides import PATHS, DisableTorchFunctionSubclass
from webgpu_torch_core.operations.creation.copy_protocols import require_leaf
from webgpu_torch_core.record.node import RemovableHandle
from webgpu_torch_core.tensors.kinds import check_gradient

from .._holding import HoldingTensor
from .layouts import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from .nodes import noted

Arguments: TypeAlias = tuple[Any, ...]
Named: TypeAlias = dict[str, Any]
Answer: TypeAlias = Any
#: functions of one tensor whose value at zero is zero
_OF_VALUES = (
    "abs", "absolute", "angle", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf",
    "erfinv", "expm1", "fix", "floor", "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "neg", "negative", "nan_to_num", "positive",
    "rad2deg", "relu", "round", "sgn", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
)  # fmt: skip
_QUESTIONS = ("is_floating_point", "is_complex", "is_signed", "is_inference", "element_size", "get_device")
#: what dense tensors refuse in the words that a sparse one of another layout does
_PARTS = ("indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices", "is_coalesced")
#: what puts tensors side by side
_JOINING = ("cat", "concat", "concatenate", "stack", "hstack", "vstack")
#: how PyTorch's messages call layouts
CALLED = {
    sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", sparse_bsr: "SparseBsr", sparse_bsc: "SparseBsc", sparse_coo: "Sparse",
}  # fmt: skip
#: what is done to values whatever their positions
_CONVERSIONS = (
    "to", "float", "double", "half", "bfloat16", "int", "long", "short", "bool", "cpu", "detach", "clone", "type", "cuda",
)  # fmt: skip


#: functions that are others by another name
_SAME = {
    "mm": "matmul", "mv": "matmul", "bmm": "matmul", "true_divide": "div", "true_divide_": "div_", "__floordiv__": "floor_divide",
}  # fmt: skip


class AnySparse(HoldingTensor):
    """A tensor of some positions and the values there; all other elements are zero."""

    def _as_cotangent(self, gradient: Tensor) -> Tensor:
        return self._picked(gradient.to_dense())

    def _picked(self, dense: Tensor) -> Tensor:
        """Return a dense tensor's elements at the places that have values here."""
        raise NotImplementedError

    def register_hook(self, hook: Callable[[Answer], Answer]) -> RemovableHandle:
        """Call ``hook(gradient)`` with the gradient, a sparse tensor of this one's places; what it returns replaces it."""

        def of_values(gradient: Tensor | None) -> Tensor | None:
            found = hook(None if gradient is None else self._as_gradient(gradient))
            return None if found is None else self._as_cotangent(found)

        return self._held.register_hook(of_values)

    @property
    def grad(self) -> Answer:
        """The gradient: one that was assigned, at places of its own, and what was added to it since."""
        given, found = vars(self).get("_assigned"), self._held.grad
        if given is None:
            return None if found is None else self._as_gradient(found)
        if found is not None:
            given._become((self._as_gradient(found) + given).detach())
            self._held.grad = None
        return given

    @grad.setter
    def grad(self, value: Answer) -> None:
        if value is not None:
            if isinstance(value, Tensor) and value.layout is not self.layout:
                raise RuntimeError("attempting to assign a gradient to a tensor that has data of a different type")
            check_gradient(self, value)
        self._held.grad, vars(self)["_assigned"] = None, value

    def _copied(self, made: Self, memo: dict[int, Answer]) -> Self:
        """Return a copy with a copy of the gradient.

        Raises:
            RuntimeError: the tensor is the result of an operation.
        """
        require_leaf(self)
        memo[id(self)] = made.requires_grad_(self.requires_grad)
        if self.grad is not None:
            made.grad = copy.deepcopy(self.grad, memo)
        return made

    def retain_grad(self) -> None:
        """Let the tensor have a gradient although it is the result of an operation."""
        self._held.retain_grad()

    def numel(self) -> int:
        """Return the number of elements, zeros included."""
        return math.prod(self._sizes)

    def _nnz(self) -> int:
        raise NotImplementedError

    def _values(self) -> Tensor:
        return self._held.detach()

    def to_sparse(
        self,
        sparse_dim: int | None = None,
        *,
        layout: Layout | None = None,
        blocksize: int | Sequence[int] | None = None,
        dense_dim: int | None = None,
    ) -> AnySparse:
        """Return the tensor in another layout."""
        raise NotImplementedError

    def to_sparse_coo(self) -> AnySparse:
        """Return the tensor by coordinates."""
        return self.to_sparse(layout=sparse_coo)

    def to_sparse_csr(self, dense_dim: int | None = None) -> AnySparse:
        """Return the matrix with compressed rows."""
        return self.to_sparse(layout=sparse_csr, dense_dim=dense_dim)

    def to_sparse_csc(self, dense_dim: int | None = None) -> AnySparse:
        """Return the matrix with compressed columns."""
        return self.to_sparse(layout=sparse_csc, dense_dim=dense_dim)

    def to_sparse_bsr(self, blocksize: int | Sequence[int], dense_dim: int | None = None) -> AnySparse:
        """Return the matrix with compressed rows of blocks."""
        return self.to_sparse(layout=sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)

    def to_sparse_bsc(self, blocksize: int | Sequence[int], dense_dim: int | None = None) -> AnySparse:
        """Return the matrix with compressed columns of blocks."""
        return self.to_sparse(layout=sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)

    @noted("TBackward0")
    def t(self) -> Answer:
        """Return the transposed matrix; a tensor of fewer dimensions as it is.

        Raises:
            RuntimeError: more dimensions, or dense ones.
        """
        kept, dense = self.sparse_dim(), self.dense_dim()
        if kept > 2 or dense:
            raise RuntimeError(
                f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {kept} sparse and {dense} dense dimensions"
            )
        return self.transpose(0, 1) if len(self._sizes) > 1 else self

    @property
    def T(self) -> Answer:
        """The tensor with its dimensions reversed."""
        count = len(self._sizes)
        return self.transpose(0, 1) if count == 2 else self.permute(*reversed(range(count)))

    @property
    def mT(self) -> Answer:
        """The tensor with its last two dimensions exchanged."""
        return self.transpose(-2, -1)

    @property
    def H(self) -> Answer:
        """The transposed matrix with its elements conjugated."""
        if len(self._sizes) != 2:
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {len(self._sizes)}-D tensor. For batches of matrices, "
                "consider using tensor.mH"
            )
        return self.transpose(0, 1).conj()

    @property
    def mH(self) -> Answer:
        """The tensor with its last two dimensions exchanged and its elements conjugated."""
        return self.mT.conj()

    def conj(self) -> Self:
        """Return the tensor with its elements conjugated."""
        return self._with(self._held.conj_physical()) if self.is_complex() else self

    @property
    def real(self) -> Self:
        """The real parts."""
        return self._with(self._held.real) if self.is_complex() else self

    @property
    def imag(self) -> Self:
        """The imaginary parts.

        Raises:
            RuntimeError: the elements are not complex.
        """
        return self._with(self._held.imag)

    @noted("SubBackward0")
    def sub(self, other: Tensor, *, alpha: complex = 1) -> Tensor:
        """Return the difference of two sparse tensors, which is sparse."""
        return self.add(other, alpha=-alpha)

    @noted("AddmmBackward0")
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
        """Return ``beta * self + alpha * (mat1 @ mat2)``, where this tensor is made dense if the product is.

        Raises:
            RuntimeError: sizes do not match.
        """
        return _addmm(self, mat1, mat2, beta=beta, alpha=alpha)

    # Python

    @classmethod
    def _method(cls, name: str) -> Callable[..., Answer] | None:
        """Return what a sparse layout itself answers under a name."""
        for each in cls.__mro__:
            if each is Tensor:
                return None
            if name in vars(each):
                return vars(each)[name]
        return None

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Answer], types: object, args: Arguments = (), kwargs: Named | None = None
    ) -> Answer:
        """Answer a call with a sparse tensor among its arguments."""
        kwargs = kwargs or {}
        path = PATHS.get(func, "")
        name = path.rpartition(".")[2]
        if path.startswith("torch.masked."):
            from ..masked._ops import with_sparse

            return with_sparse(func, *args, **kwargs)
        name = _SAME.get(name, name)
        if name == "backward":
            # Sums of gradients are looked for here, too.
            return backward(
                *args, **{"grad_tensors" if key == "gradient" else key: each for key, each in kwargs.items()}
            )
        if not path or (name in _PARTS and type(args[0])._method(name) is None):
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if name in _QUESTIONS:
            return getattr(args[0]._held, name)()
        if args and isinstance(args[0], AnySparse):
            if name in _CONVERSIONS:
                return args[0]._with(getattr(args[0]._held, name)(*args[1:], **kwargs))
            if name.removesuffix("_") in _OF_VALUES:
                return _of_values(name, args[0], args[1:], kwargs)
            own = type(args[0])._method(name)
            if own is not None:
                return own(*args, **kwargs)
            if name.endswith("_") and type(args[0])._method(name[:-1]) is not None:
                return args[0]._become(in_type_of(args[0], name[:-1], getattr(args[0], name[:-1])(*args[1:], **kwargs)))
        from . import answers

        if name in answers.LIKE:
            return answers.like(name, *args, **kwargs)
        if name in answers.ANSWERS:
            return answers.ANSWERS[name](*args, **kwargs)
        if name in _JOINING:
            from . import joining

            return getattr(joining, name)(*args, **kwargs)
        swapped = _WITH_DENSE.get(name)
        if swapped is not None and len(args) >= 2 and any(isinstance(each, AnySparse) for each in args[1:]):
            return swapped(*args, **kwargs)
        refuse(path)

    def coalesce(self) -> Self:
        """Return the tensor, in which each position is there once."""
        return self

    def __len__(self) -> int:
        return self._sizes[0]

    def __format__(self, specification: str) -> str:
        return object.__format__(self, specification) if self._sizes else format(self.item(), specification)


def _of_values(name: str, tensor: AnySparse, args: Arguments, kwargs: Named) -> AnySparse:
    """Apply a function whose value at zero is zero to the values: in place under a name with an underscore, or into ``out``.

    Raises:
        RuntimeError: what is written into has a type that does not take the results.
    """
    mine, target = tensor.coalesce(), kwargs.pop("out", None)
    values = getattr(mine._held, name.removesuffix("_"))(*args, **kwargs)
    target = tensor if name.endswith("_") else target
    if target is None:
        return mine._with(values)
    if not torch.can_cast(values.dtype, target.dtype):
        raise RuntimeError(
            f"result type {values.dtype.title} can't be cast to the desired output type {target.dtype.title}"
        )
    return target._become(mine._with(values.to(target.dtype)))


def refuse(path: str) -> NoReturn:
    """Refuse a call with a sparse tensor.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"{path} does not take sparse tensors here: sums, products, conversions and functions that are zero at zero do; call "
        "to_dense() first"
    )


def added(zeros: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Return zeros with values added at places of the first dimension."""
    if str(values.dtype).endswith("bool"):
        return zeros.int().index_add(0, places, values.int()) > 0
    return zeros.index_add(0, places, values)


def in_type_of(target: AnySparse, name: str, made: AnySparse) -> AnySparse:
    """Return the result of an operation in place in the type of what it is written into.

    Raises:
        RuntimeError: the type is of a lower kind.
    """
    if made.dtype is target.dtype:
        return made
    if made.dtype.category > target.dtype.category:
        one, other = made.dtype.title, target.dtype.title
        if name == "div":
            raise RuntimeError(f"result type {one} can't be cast to the desired output type {other}")
        name = "add" if name == "sub" else name
        raise RuntimeError(f"Can't convert result type {one} to output {other} in {name} operation")
    return made._with(made._held.to(target.dtype))


def text_of(tensor: AnySparse, parts: Sequence[tuple[str, Tensor]], newline: bool) -> str:
    """Return a sparse tensor's text: its parts in lines of their own, and what follows where it fits in a line."""
    ending = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    if tensor.dtype not in (torch.get_default_dtype(), torch.int64, torch.bool):
        ending.append(f"dtype={tensor.dtype}")
    ending.append(f"layout={tensor.layout}")
    if tensor.grad_fn is not None:
        ending.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        ending.append("requires_grad=True")
    inside = " " * 7
    lines = []
    for name, part in parts:
        # The type is told once, after the parts.
        text = re.sub(r", dtype=[\w.]+\)$", ")", repr(part))
        if not part.numel() and "size=" not in text:
            # Of parts without elements the size is told of those with one dimension, too.
            text = f"{text[:-1]}, size={tuple(part.shape)})"
        first, *others = text.split("\n")
        lines.append("\n".join([name + first, *(each and inside + " " * len(name) + each for each in others)]))
    text = "tensor(" + f",\n{inside}".join(lines)
    length = len(text) - text.rfind("\n") + 1
    for each in ending:
        if newline or length + len(each) + 2 > 80:
            text += f",\n{inside}{each}"
            length = len(inside) + len(each)
            newline = False
        else:
            text += f", {each}"
            length += len(each) + 2
    return text + ")"


def _dense_times(dense: Tensor, sparse: AnySparse) -> Tensor:
    if dense.dim() == 1:
        return sparse.t().matmul(dense)
    return sparse.t().matmul(dense.t()).t()


@noted("AddmmBackward0")
def _addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Tensor:
    product = mat1 @ mat2
    if isinstance(input, AnySparse) and not isinstance(product, AnySparse):
        input = input.to_dense()
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else (input if beta == 1 else input * beta) + product


def _add_into(dense: Tensor, sparse: Answer, *, alpha: complex = 1) -> Tensor:
    if sparse.layout is sparse_coo and sparse._indices().shape[0] == 1:
        # Rows of a table: the others are not touched.
        return dense.index_add_(0, sparse._indices()[0], sparse._values(), alpha=alpha)
    return dense.add_(sparse.to_dense(), alpha=alpha)


_WITH_DENSE: dict[str, Callable[..., Answer]] = {
    "add": lambda dense, sparse, *, alpha=1: dense.add(sparse.to_dense(), alpha=alpha),
    "add_": _add_into,
    "sub": lambda dense, sparse, *, alpha=1: dense.sub(sparse.to_dense(), alpha=alpha),
    "sub_": lambda dense, sparse, *, alpha=1: dense.sub_(sparse.to_dense(), alpha=alpha),
    "mul": lambda dense, sparse: sparse.mul(dense),
    "matmul": _dense_times,
    "addmm": _addmm,
}
