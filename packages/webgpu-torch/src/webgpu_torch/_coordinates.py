"""Sparse tensors by coordinates: the positions of some elements, and their values.

Loaded when the first one is made: from then on calls look for them among their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self, TypeAlias

from webgpu_torch_core import Size, Tensor
from webgpu_torch_core.dispatch.overrides import PATHS, DisableTorchFunctionSubclass
from webgpu_torch_core.tensors.type_aliases import Number

from .sparse import sparse_coo

Arguments: TypeAlias = tuple[Any, ...]
Named: TypeAlias = dict[str, Any]
Answer: TypeAlias = Any
#: functions of one tensor whose value at zero is zero
_OF_VALUES = (
    "abs", "absolute", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor", "log1p", "neg",
    "negative", "nan_to_num", "positive", "rad2deg", "relu", "round", "sgn", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
)  # fmt: skip
_QUESTIONS = ("is_floating_point", "is_complex", "is_signed", "is_inference", "element_size", "get_device")
#: what is done to values whatever their positions
_CONVERSIONS = (
    "to",
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "bool",
    "cpu",
    "detach",
    "clone",
    "type",
    "cuda",
)


class SparseTensor(Tensor):
    """A sparse tensor: element ``[indices[0, i], indices[1, i], ...]`` is ``values[i]``, a sum where positions repeat, else zero."""

    _positions: Tensor
    _held: Tensor
    _sizes: Size
    _unique: bool

    @classmethod
    def make(cls, indices: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool) -> Self:
        """Return one: positions ``[sparse dimensions, n]``, values ``[n, ...]``, the sizes, and whether positions are sorted and unique."""
        made: Any = cls._from_storage(values._storage, values._layout, values.dtype, values.device)
        # Assigned past the class's own attributes, which ask the values.
        vars(made).update(_positions=indices, _held=values, _sizes=Size(size), _unique=is_coalesced)
        return made

    def _with(self, values: Tensor) -> SparseTensor:
        return SparseTensor.make(self._positions.to(values.device), values, self._sizes, self._unique)

    # What they are

    layout = sparse_coo
    is_sparse = True  # type: ignore[assignment]

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """The sizes."""
        return self._sizes

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """The number of dimensions."""
        return len(self._sizes)

    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        """Whether the values take part in a graph."""
        return self._held.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._held.requires_grad = value

    @property
    def grad_fn(self) -> Answer:
        """What computed the values."""
        return self._held.grad_fn

    @property
    def is_leaf(self) -> bool:  # type: ignore[override]
        """Whether nothing computed the values."""
        return self._held.is_leaf

    @property
    def grad(self) -> SparseTensor | None:  # type: ignore[override]
        """The gradient, at the same positions."""
        found = self._held.grad
        if found is None or self._unique:
            return None if found is None else self._with(found)
        # Values at one position have one gradient.
        once = SparseTensor.make(self._positions, found.detach(), self._sizes, False)
        count = SparseTensor.make(self._positions, found.new_ones(found.shape), self._sizes, False).coalesce()
        return count._with(once.coalesce()._held / count._held)

    @grad.setter
    def grad(self, value: SparseTensor | None) -> None:
        self._held.grad = None if value is None else value._held

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let the values take part in a graph."""
        self._held.requires_grad_(requires_grad)
        return self

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self._sizes)

    def numel(self) -> int:
        """Return the number of elements, zeros included."""
        return math.prod(self._sizes)

    def size(self, dim: int | None = None) -> Answer:
        """Return the sizes, or one of them."""
        return self._sizes if dim is None else self._sizes[dim]

    def sparse_dim(self) -> int:
        """Return how many dimensions positions have."""
        return len(self._positions)

    def dense_dim(self) -> int:
        """Return how many dimensions each value has."""
        return len(self._sizes) - len(self._positions)

    def _nnz(self) -> int:
        return self._positions.shape[1]

    def _indices(self) -> Tensor:
        return self._positions

    def _values(self) -> Tensor:
        return self._held.detach()

    def indices(self) -> Tensor:
        """Return the positions ``[sparse dimensions, n]``.

        Raises:
            RuntimeError: some may repeat.
        """
        self._require_unique("indices")
        return self._positions

    def values(self) -> Tensor:
        """Return the values ``[n, ...]``.

        Raises:
            RuntimeError: positions may repeat.
        """
        self._require_unique("values")
        return self._held

    def _require_unique(self, asked: str) -> None:
        if not self._unique:
            raise RuntimeError(f"Cannot get {asked} on an uncoalesced tensor, please call .coalesce() first")

    def is_coalesced(self) -> bool:  # type: ignore[override]
        """Return whether positions are sorted and each is there once."""
        return self._unique

    def _flat(self) -> Tensor:
        """Return each value's place among the sparse dimensions."""
        sizes = self._sizes[: len(self._positions)]
        flat = self._positions.new_zeros(self._nnz())
        for dim, size in enumerate(sizes):
            flat = flat * size + self._positions[dim]
        return flat

    # Conversions

    def coalesce(self) -> SparseTensor:
        """Return the same tensor with positions sorted and each there once, values at one position added."""
        if self._unique:
            return self
        flat, places = self._flat().unique(return_inverse=True)
        values = _added(self._held.new_zeros((len(flat), *self._held.shape[1:])), places, self._held)
        rows = []
        for size in reversed(self._sizes[: len(self._positions)]):
            rows.insert(0, flat % size)
            flat = flat // size
        return SparseTensor.make(_stacked(rows, self._positions), values, self._sizes, True)

    def to_dense(self, dtype: Answer = None, *, masked_grad: bool = True) -> Tensor:
        """Return a tensor with all elements."""
        del masked_grad
        sizes = self._sizes[: len(self._positions)]
        dense = _added(self._held.new_zeros((math.prod(sizes), *self._held.shape[1:])), self._flat(), self._held)
        dense = dense.reshape(tuple(self._sizes))
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, *args: Answer, **kwargs: Answer) -> SparseTensor:
        """Return the tensor, which is sparse."""
        return self

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Return the tensor with two of its sparse dimensions exchanged.

        Raises:
            NotImplementedError: one is dense.
        """
        count = len(self._positions)
        order = list(range(count))
        dims = [each % len(self._sizes) for each in (dim0, dim1)]
        if max(dims) >= count:
            raise NotImplementedError("only sparse dimensions of a sparse tensor are exchanged: call to_dense() first")
        order[dims[0]], order[dims[1]] = order[dims[1]], order[dims[0]]
        sizes = [*(self._sizes[each] for each in order), *self._sizes[count:]]
        return SparseTensor.make(self._positions[order], self._held, sizes, False)

    def t(self) -> SparseTensor:
        """Return the transposed matrix."""
        return self.transpose(0, 1)

    # Arithmetic

    def add(self, other: Tensor, *, alpha: Number = 1) -> Tensor:
        """Return the sum of two sparse tensors, which is sparse.

        Raises:
            RuntimeError: the other is dense, or of other sizes.
        """
        if not isinstance(other, SparseTensor):
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        if self._sizes != other._sizes or len(self._positions) != len(other._positions):
            raise RuntimeError(
                f"sparse tensors of sizes {tuple(self._sizes)} and {tuple(other._sizes)} cannot be added"
            )
        import webgpu_torch as torch

        scaled = other._held if alpha == 1 else other._held * alpha
        positions = torch.cat([self._positions, other._positions], 1)
        return SparseTensor.make(positions, torch.cat([self._held, scaled]), self._sizes, False).coalesce()

    def sub(self, other: Tensor, *, alpha: Number = 1) -> Tensor:
        """Return the difference of two sparse tensors, which is sparse."""
        return self.add(other, alpha=-alpha)

    def mul(self, other: Tensor | Number) -> SparseTensor:
        """Return the product element by element, which is sparse."""
        if not isinstance(other, Tensor) or (other.dim() == 0 and not isinstance(other, SparseTensor)):
            return self._with(self._held * other)
        if isinstance(other, SparseTensor):
            other = other.to_dense()
        mine = self.coalesce()
        spread = other.expand(tuple(self._sizes))
        return mine._with(mine._held * spread[tuple(mine._positions)])

    def div(self, other: Tensor | Number, *, rounding_mode: str | None = None) -> SparseTensor:
        """Return the quotient by a number."""
        if isinstance(other, Tensor) and other.dim():
            raise NotImplementedError("a sparse tensor is divided by a number: call to_dense() to divide by a tensor")
        mine = self.coalesce()
        return mine._with(mine._held.div(other, rounding_mode=rounding_mode))

    def pow(self, exponent: Number) -> SparseTensor:
        """Return a positive power of each element."""
        if not isinstance(exponent, int | float) or exponent <= 0:
            raise NotImplementedError(
                f"powers of sparse tensors have positive exponents, not {exponent}: call to_dense() first"
            )
        mine = self.coalesce()
        return mine._with(mine._held**exponent)

    def matmul(self, other: Tensor) -> Tensor:
        """Return the product ``[m, k] @ [k, n]``, or ``[m, k] @ [k]``: dense with a dense operand, else sparse.

        Raises:
            RuntimeError: sizes do not match.
        """
        if len(self._sizes) != 2 or self.dense_dim() or other.dim() not in (1, 2) or self._sizes[1] != other.shape[0]:
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied: {tuple(self._sizes)} and {tuple(other.shape)}"
            )
        if isinstance(other, SparseTensor):
            return _from_dense(self.matmul(other.to_dense()))
        rows, columns = self._positions
        values = self._held if other.dim() == 1 else self._held[:, None]
        product = values * other.index_select(0, columns)
        return _added(product.new_zeros((self._sizes[0], *other.shape[1:])), rows, product)

    def sum(self, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: Answer = None) -> Tensor:
        """Return the sum over some sparse dimensions, which is sparse, or over all, which is not.

        Raises:
            NotImplementedError: over some dimensions that are dense, or that are to be kept.
        """
        values = self._held if dtype is None else self._held.to(dtype)
        count = len(self._positions)
        dims = range(len(self._sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
        dims = {each % len(self._sizes) for each in dims}
        if len(dims) == len(self._sizes):
            return values.sum()
        if keepdim or max(dims) >= count:
            raise NotImplementedError(
                "sparse tensors are summed over sparse dimensions without keeping them: call to_dense() first"
            )
        kept = [each for each in range(count) if each not in dims]
        if not kept:
            return values.sum(0)
        sizes = [each for place, each in enumerate(self._sizes) if place not in dims]
        return SparseTensor.make(self._positions[kept], values, sizes, False).coalesce()

    # Python

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Answer], types: object, args: Arguments = (), kwargs: Named | None = None
    ) -> Answer:
        """Answer a call with a sparse tensor among its arguments."""
        del types
        kwargs = kwargs or {}
        path = PATHS.get(func, "")
        name = path.rpartition(".")[2]
        name = "matmul" if name in ("mm", "mv") else name
        if not path:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if name in _QUESTIONS:
            return getattr(args[0]._held, name)()
        if name in _CONVERSIONS or name in _OF_VALUES:
            mine = args[0] if name in _CONVERSIONS else args[0].coalesce()
            return mine._with(getattr(mine._held, name)(*args[1:], **kwargs))
        own = vars(SparseTensor).get(name)
        if own is not None and args and isinstance(args[0], SparseTensor):
            return own(*args, **kwargs)
        swapped = _WITH_DENSE.get(name)
        if swapped is not None and len(args) == 2 and isinstance(args[1], SparseTensor):
            return swapped(*args, **kwargs)
        refuse(path)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        inside = " " * 7
        texts = [
            repr(each).replace("\n", "\n" + inside + " " * len(name))
            for name, each in (("indices=", self._positions), ("values=", self._held.detach()))
        ]
        size = f"size={tuple(self._sizes)}, nnz={self._nnz()}, layout=torch.sparse_coo"
        grad = ", requires_grad=True" if self.requires_grad and self.is_leaf else ""
        return f"tensor(indices={texts[0]},\n{inside}values={texts[1]},\n{inside}{size}{grad})"

    def __len__(self) -> int:
        return self._sizes[0]

    def __deepcopy__(self, memo: dict[int, Answer]) -> SparseTensor:
        made = SparseTensor.make(self._positions.clone(), self._held.detach().clone(), self._sizes, self._unique)
        memo[id(self)] = made.requires_grad_(self.requires_grad)
        return made

    def __reduce_ex__(self, protocol: object) -> tuple[Answer, ...]:
        return SparseTensor.make, (self._positions, self._held.detach(), tuple(self._sizes), self._unique)


def refuse(path: str) -> NoReturn:
    """Refuse a call with a sparse tensor.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"{path} does not take sparse tensors here: sums, products, conversions and functions that are zero at zero do; call "
        "to_dense() first"
    )


def _added(zeros: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Return zeros with values added at places of the first dimension."""
    if str(values.dtype).endswith("bool"):
        return zeros.int().index_add(0, places, values.int()) > 0
    return zeros.index_add(0, places, values)


def _stacked(rows: Sequence[Tensor], like: Tensor) -> Tensor:
    import webgpu_torch as torch

    return torch.stack(list(rows)) if rows else like.new_zeros((0, 0))


def _from_dense(dense: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """Return a dense tensor's elements, or parts, that are not zero."""
    count = dense.dim() if sparse_dim is None else sparse_dim
    taken = dense.detach() != 0
    if count < dense.dim():
        taken = taken.flatten(count).any(-1)
    positions = taken.nonzero().t().contiguous()
    values = dense[tuple(positions)] if count else dense[None]
    return SparseTensor.make(positions, values, dense.shape, True)


def _dense_times(dense: Tensor, sparse: SparseTensor) -> Tensor:
    if dense.dim() == 1:
        return sparse.t().matmul(dense)
    return sparse.t().matmul(dense.t()).t()


_WITH_DENSE: dict[str, Callable[..., Answer]] = {
    "add": lambda dense, sparse, *, alpha=1: dense + sparse.to_dense() * alpha,
    "sub": lambda dense, sparse, *, alpha=1: dense - sparse.to_dense() * alpha,
    "mul": lambda dense, sparse: sparse.mul(dense),
    "matmul": _dense_times,
}
