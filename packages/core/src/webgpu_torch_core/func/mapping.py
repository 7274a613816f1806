"""``torch.vmap``: a function of single examples, applied to batches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ..autograd.checkpoint import RandomState
from ..dispatch.registry import OPERATIONS
from ..tensors.pytree import tree_flatten, tree_unflatten
from ..tensors.tensor import Tensor
from .batching import BatchRegion, batched, is_batched, named_after
from .rules import drawing


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies ``func`` to every example of a batch, all of them at once.

    Operations without a rule for batches run on one example after the other.

    Args:
        func: a function of tensors that returns tensors.
        in_dims: the dimension of each argument that counts examples, None for what all examples share.
        out_dims: where that dimension is in each result.
        randomness: ``"error"``, ``"different"`` (each example draws its own numbers) or ``"same"``.
        chunk_size: how many examples to take at a time; all of them if None.

    Raises:
        ValueError: dimensions that do not fit the arguments or results.
        RuntimeError: the function reads elements on the host, or draws random numbers under ``"error"``.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = getattr(func, "__name__", repr(func))

    @named_after(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        dims = _dimensions_of_inputs(name, in_dims, args, leaves)
        sizes = [leaf.shape[dim] for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
        if not sizes:
            raise ValueError("vmap: Expected at least one Tensor to vmap over")
        if any(size != sizes[0] for size in sizes):
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
                "mapped dimension"
            )
        moved = [leaf if dim is None else leaf.movedim(dim, 0) for leaf, dim in zip(leaves, dims, strict=True)]
        starts = range(0, sizes[0], chunk_size) if chunk_size is not None and sizes[0] else range(1)
        results = []
        random = (
            RandomState([each for each in moved if isinstance(each, Tensor)])
            if randomness == "same" and len(starts) > 1
            else None
        )
        for start in starts:
            size = sizes[0] if chunk_size is None else min(chunk_size, sizes[0] - start)
            part = [
                leaf if dim is None or len(starts) == 1 else leaf.narrow(0, start, size)
                for leaf, dim in zip(moved, dims, strict=True)
            ]
            # Chunks share numbers, too.
            again = random.again() if random is not None and start != starts[-1] else contextlib.nullcontext()
            with BatchRegion(size, randomness) as level, _region(randomness, level), again:
                given = [leaf if dim is None else batched(leaf, level) for leaf, dim in zip(part, dims, strict=True)]
                outputs = func(*tree_unflatten(given, spec), **kwargs)
                results.append(_batches_of_outputs(name, outputs, out_dims, level, size))
        return _joined(results)

    return mapped


def _region(randomness: str, level: int) -> contextlib.AbstractContextManager[object]:
    """Return what sees the calls that draw numbers without an example among their arguments."""
    return contextlib.nullcontext() if randomness == "error" else drawing.RandomRegion(level)


def _dimensions_of_inputs(name: str, in_dims: Any, args: Any, leaves: list[Any]) -> list[int | None]:
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple "
            f"matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    dims = spread(in_dims, args)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of `inputs`. "
            f"in_dims has structure {tree_flatten(in_dims)[1]} but inputs has structure {tree_flatten(args)[1]}."
        )
    return [_checked_dimension(name, in_dims, leaf, dim) for leaf, dim in zip(leaves, dims, strict=True)]


def _checked_dimension(name: str, in_dims: Any, leaf: Any, dim: Any) -> int | None:
    if dim is None:
        return None
    start = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for "
    if not isinstance(dim, int):
        raise ValueError(start + "an input but in_dim must be either an integer dimension or None.")
    if not isinstance(leaf, Tensor):
        raise ValueError(
            start
            + f"an input but the input is of type {type(leaf)}. We cannot vmap over non-Tensor arguments, please use "
            "None as the respective in_dim"
        )
    if not -leaf.dim() <= dim < leaf.dim():
        raise ValueError(
            start
            + f"some input, but that input is a Tensor of dimensionality {leaf.dim()} so expected in_dim to satisfy "
            f"-{leaf.dim()} <= in_dim < {leaf.dim()}."
        )
    return dim % leaf.dim()


def spread(value: Any, tree: Any) -> list[Any] | None:
    """Return one value per leaf of a tree: ``value`` is one for all, or a tree of them as deep as it needs to be."""
    if isinstance(value, tuple | list | dict) and isinstance(tree, tuple | list | dict):
        if type(value) is not type(tree) or len(value) != len(tree):
            return None
        if isinstance(value, dict) and isinstance(tree, dict):
            if value.keys() != tree.keys():
                return None
            pairs = [(value[key], tree[key]) for key in tree]
        else:
            pairs = list(zip(value, tree, strict=True))
        parts = [spread(*each) for each in pairs]
        return None if any(each is None for each in parts) else [one for each in parts for one in each or ()]
    if isinstance(value, tuple | list | dict):
        return None
    return [value] * len(tree_flatten(tree)[0])


def _batches_of_outputs(name: str, outputs: Any, out_dims: Any, level: int, size: int) -> tuple[Any, list[Any], Any]:
    """Return the structure of the results, their batches, and the dimension that counts examples in each."""
    leaves, spec = tree_flatten(outputs)
    dims = [out_dims] if isinstance(out_dims, int) and len(leaves) == 1 else spread(out_dims, outputs)
    if dims is None and isinstance(out_dims, tuple) and len(out_dims) == 1 and not isinstance(outputs, tuple):
        dims = spread(out_dims[0], outputs)
    if dims is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`. "
            f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    found, places = [], []
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is None:
            if is_batched(leaf, level):
                raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
            found.append(leaf)
            places.append(None)
            continue
        if not isinstance(leaf, Tensor):
            raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}. Did you mean "
                             "to set out_dims= to None for output?")  # fmt: skip
        whole = leaf.batch if is_batched(leaf, level) else leaf.unsqueeze(0).expand(size, *([-1] * leaf.dim()))  # type: ignore[attr-defined]
        if not -whole.dim() <= dim < whole.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-whole.dim()}, {whole.dim() - 1}], but got {dim})"
            )
        found.append(whole.movedim(0, dim))
        places.append(dim)
    return spec, found, places


def _joined(results: list[tuple[Any, list[Any], Any]]) -> Any:
    spec, first, places = results[0]
    if len(results) == 1:
        return tree_unflatten(first, spec)
    join = OPERATIONS["cat"].function
    columns = zip(*(found for _, found, _ in results), strict=True)
    return tree_unflatten(
        [column[0] if dim is None else join(list(column), dim) for column, dim in zip(columns, places, strict=True)],
        spec,
    )
