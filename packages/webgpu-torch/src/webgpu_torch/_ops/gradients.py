"""Gradients of operations that classes of tensors answer: nodes whose backward is made of operations that they answer, too.

Those of the operations that networks are mostly made of are written with others, as PyTorch's ``derivatives.yaml`` does. For
the rest there is one operation per operation, under ``torch.ops.webgpu_torch``: the product of a vector with its Jacobian,
which a class that hands operations on to plain tensors need not know. It computes the operation once more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from webgpu_torch_core import Tensor
from webgpu_torch_core.autograd.engine import grad
from webgpu_torch_core.dispatch.torch_dispatch import Value
from webgpu_torch_core.operations.in_place.writing import check_leaf
from webgpu_torch_core.record.grad_mode import enable_grad, recording
from webgpu_torch_core.record.node import Node
from webgpu_torch_core.tensors.pytree import tree_flatten, tree_unflatten
from webgpu_torch_core.tensors.saved_tensors import SavedTensor

from .formulas import FORMULAS
from .overloads import OpOverload, OpOverloadPacket

_NOT_DIFFERENTIABLE = frozenset((
    "detach", "detach_", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "new_zeros",
    "new_ones", "new_empty", "new_full", "new_empty_strided", "bernoulli", "_local_scalar_dense", "new_tensor",
))  # fmt: skip


def _is_differentiable(value: object) -> bool:
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


class _VectorJacobianProduct(OpOverloadPacket):
    """``products(gradients, places, args, kwargs)``: of each of an overload's tensors at ``places`` among the leaves."""

    def __init__(self, overload: OpOverload) -> None:
        super().__init__(f"vjp_{overload.overloadpacket.__name__}", self._products, "webgpu_torch")
        self._overload = overload

    def _products(self, gradients: Sequence[Value], places: Sequence[int], args: Value, kwargs: Value) -> list[Value]:
        recorded = recording.enabled
        leaves, spec = tree_flatten((args, kwargs))
        for place in places:
            given = leaves[place]
            again = recorded and given.requires_grad
            leaves[place] = given.view(given.shape) if again else given.detach().requires_grad_()
        fresh = [leaves[place] for place in places]
        with enable_grad():
            args, kwargs = tree_unflatten(leaves, spec)
            schema = self._overload._known_schema
            if schema is not None and schema.is_mutable:
                args = (args[0].clone(), *args[1:])
            outputs, _ = tree_flatten(self._overload.compute(args, kwargs))
        pairs = [
            (output, gradient)
            for output, gradient in zip(outputs, gradients, strict=False)
            if gradient is not None and isinstance(output, Tensor) and output.requires_grad
        ]
        if not pairs:
            return [None] * len(fresh)
        found = grad(
            [each for each, _ in pairs], fresh, [each for _, each in pairs], create_graph=recorded, allow_unused=True
        )
        return list(found)


@functools.cache
def vector_jacobian_product(overload: OpOverload) -> OpOverload:
    """Return the operation that computes an overload's gradients."""
    return getattr(_VectorJacobianProduct(overload), overload._overloadname)


def _draws(overload: OpOverload) -> bool:
    """Return whether calling an overload again gives something else."""
    schema = overload._known_schema
    return schema is not None and any(each.type.startswith("Generator") for each in schema.arguments)


def _universal(overload: OpOverload, leaves: list[Value], spec: Value, wanted: list[int]) -> Callable[..., Value]:
    """Return the backward of an overload by its product."""
    saved = [SavedTensor(each) if isinstance(each, Tensor) else each for each in leaves]
    tensors = [place for place, each in enumerate(leaves) if isinstance(each, Tensor)]
    product = vector_jacobian_product(overload)

    def backward(*gradients: Value) -> list[Value]:
        if _draws(overload):
            raise NotImplementedError(f"{overload} draws random numbers: it has no gradient for classes that answer it")
        values = [each.unpack() if isinstance(each, SavedTensor) else each for each in saved]
        args, kwargs = tree_unflatten(values, spec)
        found = dict(zip(wanted, product(list(gradients), wanted, args, kwargs), strict=True))
        return [found.get(place) for place in tensors]

    return backward


def _written(overload: OpOverload, args: Sequence[Value]) -> Value:
    schema = overload._known_schema
    return args[0] if schema is not None and args and schema.is_mutable and schema.arguments[0].is_write else None


def recorder(
    overload: OpOverload, args: tuple[Value, ...], kwargs: dict[str, Value]
) -> Callable[[Value], Value] | None:
    """Return what gives an overload's results their gradients; None if there are none.

    Raises:
        RuntimeError: a leaf that requires a gradient would be written.
        NotImplementedError: a view would be written: gradients of what it is a view of do not follow.
    """
    leaves, spec = tree_flatten((args, kwargs))
    tensors = [each for each in leaves if isinstance(each, Tensor)]
    wanted = [place for place, each in enumerate(leaves) if isinstance(each, Tensor) and each.requires_grad]
    if not wanted or overload.overloadpacket.__name__ in _NOT_DIFFERENTIABLE:
        return None
    written = _written(overload, args)
    edges = tuple(each._gradient_edge() if each.requires_grad else None for each in tensors)
    if written is not None:
        check_leaf(written, True)
        if "_view_of_another" in written.__dict__:
            raise NotImplementedError(f"{overload} would write into a view, whose base's gradient would not follow")
        # What is written is needed as it was.
        leaves[0] = written.clone()
    backward = None
    formula = FORMULAS.get(str(overload).removeprefix("aten."))
    if formula is not None and all(each.is_floating_point() for each in tensors):
        backward = formula(lambda tensor: SavedTensor(tensor).unpack, *args, **kwargs)
    if backward is None:
        backward = _universal(overload, leaves, spec, wanted)
    return functools.partial(_record, overload, edges, backward, tensors, written)


def _record(
    overload: OpOverload,
    edges: tuple[Value, ...],
    backward: Callable[..., Value],
    given: list[Value],
    written: Value,
    result: Value,
) -> Value:
    outputs = [written] if written is not None else tree_flatten(result)[0]
    number_of_outputs = len(outputs)
    fresh = [
        (number, each)
        for number, each in enumerate(outputs)
        if _is_differentiable(each)
        and (each is written or not (each.requires_grad or any(each is one for one in given)))
    ]
    if not fresh:
        return result
    name = overload.overloadpacket.__name__.strip("_")
    title = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Backward0"
    node = Node(title, edges, backward, number_of_outputs)
    for number, each in fresh:
        if each is written:
            each._rebase_history(node)
            continue
        each._base = None
        each._set_gradient(node, number)
        if overload.is_view:
            each.__dict__["_view_of_another"] = True
    return result
