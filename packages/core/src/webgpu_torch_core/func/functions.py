"""Custom differentiable functions over batches: what ``Function.apply`` does with examples of ``vmap``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

from ..autograd import engine
from ..autograd.forward_ad import tangents_of
from ..autograd.function import Function
from ..dispatch.registry import OPERATIONS
from ..operations.movement.views import movedim
from ..record.context import context
from ..record.node import Node
from ..tensors.pytree import tree_flatten, tree_map, tree_unflatten
from ..tensors.tensor import Tensor
from .batching import batch_size, batched, current_level, example_of, held, is_batched, level_of, one_by_one, randomness
from .mapping import spread

# Not typing.NamedTuple: typing is slow to import.
VmapInfo = namedtuple("VmapInfo", ("batch_size", "randomness"))  # pyright: ignore[reportUntypedNamedTuple]
VmapInfo.__doc__ = (
    "What a function's ``vmap`` is told: how many examples there are, and what random functions are to do."
)


def over_batches(function: type[Function], args: tuple[object, ...]) -> object:
    """Return what a function's own rule for batches makes of a call, ``NotImplemented`` where it runs on examples.

    Raises:
        RuntimeError: the class has neither a rule nor ``generate_vmap_rule``, or both, or the rule returns no pair of an output
            and the dimensions that count examples in it.
    """
    level = level_of(args, {})
    if not level or function.transformed:
        return NotImplemented
    name, own = function.__name__, function.vmap is not Function.vmap
    if function.generate_vmap_rule:
        if own:
            raise RuntimeError(
                f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overriden vmap staticmethod. "
                "Please set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid ambiguity."
            )
        # A node's gradients and tangents are those of whole tensors, and what an example stands for has its own.
        if batch_size(level) and any(map(_differentiated, args)):
            return one_by_one(function.apply, level, args, {})
        return NotImplemented
    if not own:
        raise RuntimeError(
            f"You tried to vmap over {name}, but it does not have vmap support. Please override and implement the vmap "
            "staticmethod or set generate_vmap_rule=True. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )
    dims = tree_map(lambda each: 0 if is_batched(each, level) else None, args)
    result = function.vmap(VmapInfo(batch_size(level), randomness(level)), dims, *held(args, level))
    if not isinstance(result, tuple) or len(result) != 2:
        got = f"{len(result)} returns" if isinstance(result, tuple) else f"a {type(result)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with "
            f"the output. Got {got} instead"
        )
    return _examples(name, *result, level)


def _differentiated(value: object) -> bool:
    """Return whether an argument, or the batch that it is an example of, has a tangent or needs a gradient."""
    while is_batched(value):
        value = value.batch  # type: ignore[attr-defined]
    if not isinstance(value, Tensor):
        return False
    return (context.enabled and value.requires_grad) or any(each is not None for each in tangents_of((value,)))


def _examples(name: str, output: object, out_dims: object, level: int) -> object:
    leaves, spec = tree_flatten(output)
    dims = [out_dims] if isinstance(out_dims, int) and len(leaves) == 1 else spread(out_dims, output)
    if dims is None:
        raise RuntimeError(
            f"The autograd.Function's vmap staticmethod of {name} returned an incompatible (output, out_dims) tuple. Expected "
            f"out_dims={out_dims} to be compatible with the structure of `output`. out_dims has structure "
            f"{tree_flatten(out_dims)[1]} but output has structure {spec}."
        )
    examples = [
        batched(movedim(leaf, dim, 0), level) if isinstance(leaf, Tensor) and dim is not None else leaf
        for leaf, dim in zip(leaves, dims, strict=True)
    ]
    return tree_unflatten(examples, spec)


def _run_with_batches(node: Node, gradients: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Return what a node makes of gradients that may be examples of a batch: of one after the other, its graph knows of no batch."""
    level = level_of(gradients, {})
    if not level:
        return node.run(gradients)
    rows = [_run_with_batches(node, example_of(list(gradients), level, each)) for each in range(batch_size(level))]
    stack = OPERATIONS["stack"].function
    return [
        None if all(each is None for each in column) else batched(stack(list(column)), level)
        for column in zip(*rows, strict=True)
    ]


Function.over_batches = over_batches
engine.run_with_batches[:] = [_run_with_batches]
engine.running_batches[:] = [current_level]
