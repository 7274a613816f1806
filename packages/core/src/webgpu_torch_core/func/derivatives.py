"""``torch.func``'s gradients, products with Jacobians, and Jacobians of functions.

A function is called on fresh tensors that stand for its arguments; gradients with respect to them are found by the engine,
and stay in the graph only where something else that they depend on requires a gradient. Inside of ``vmap`` the fresh
tensors hold one copy per example: each example's results depend on its own copy alone, and the gradient of their sum holds
every example's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.engine import grad as engine_grad
from ..autograd.engine import reachable
from ..autograd.functional import by_columns
from ..autograd.graph import disable_saved_tensors_hooks
from ..dispatch.registry import OPERATIONS
from ..operations.common import attach
from ..record.context import context
from ..record.grad_mode import enable_grad, is_grad_enabled
from ..record.node import AccumulateGrad
from ..tensors.pytree import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten
from ..tensors.tensor import Tensor
from .batching import batch_size, batched, current_level, is_batched, level_of, named_after, one_by_one

_no_hooks = disable_saved_tensors_hooks(
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use case."
)


# What stands for arguments


def _whole(value: Any, level: int) -> Any:
    """Return the plain tensor of a value: one dimension for each level of batches, then the example's."""
    if level == 0:
        return value
    if is_batched(value, level):
        return _whole(value.batch, level - 1)
    inner = _whole(value, level - 1)
    return inner.unsqueeze(level - 1).expand(*inner.shape[: level - 1], batch_size(level), *inner.shape[level - 1 :])


def _example(whole: Any, level: int) -> Any:
    """Return the value whose plain tensor is given."""
    for number in range(1, level + 1):
        whole = batched(whole, number)
    return whole


def _fresh(value: Any, level: int) -> Any:
    """Return a plain tensor that stands for an argument."""
    whole = _whole(value, level)
    if level and not is_batched(value, level):
        whole = whole.clone()
    return whole.view_as(whole) if whole.requires_grad else whole.detach().requires_grad_()


def _released(value: Any, fresh: Sequence[Any], level: int) -> Any:
    """Return a result without its graph, unless something else in it than the fresh tensors requires a gradient."""
    if not isinstance(value, Tensor):
        return value
    whole = _whole(value, level) if level else value
    if not whole.requires_grad:
        return value
    own = {id(each) for each in fresh}
    edge = whole._gradient_edge()
    nodes = reachable([edge] if edge else [])
    if any(isinstance(each, AccumulateGrad) and id(each.variable) not in own for each in nodes):
        return value
    return _example(whole.detach(), level) if level else value.detach()


class _Run:
    """A call of a function on tensors that stand for some of its arguments, and that it may write into if they are ``writable``."""

    def __init__(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Any,
        argnums: Sequence[int],
        writable: bool = False,
    ) -> None:
        self.level = current_level()
        self.writable = writable
        leaves: list[Any] = []
        given = list(args)
        for number in argnums:
            given[number] = tree_map(lambda leaf: self._stand_in(leaf, leaves), args[number])
        self.structure = [tree_flatten(args[number])[1] for number in argnums]
        self.fresh = leaves
        context.transforms += 1
        try:
            with _no_hooks:
                self.result = func(*given, **kwargs)
        finally:
            context.transforms -= 1

    def _stand_in(self, leaf: Any, leaves: list[Any]) -> Any:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        fresh = _fresh(leaf, self.level)
        leaves.append(fresh)
        if self.writable:
            # No leaf, and no view of one.
            fresh = attach(fresh.detach(), "AliasBackward0", (fresh,), lambda gradient: (gradient,))
        return _example(fresh, self.level)

    def gradients(self, outputs: Sequence[Any], seeds: Sequence[Any]) -> list[Any]:
        """Return the gradients of outputs (values of single examples), zeros where there are none."""
        wholes = [_whole(each, self.level) for each in outputs]
        pairs = [(each, seed) for each, seed in zip(wholes, seeds, strict=True) if each.requires_grad]
        if not pairs:
            found: Sequence[Any] = [None] * len(self.fresh)
        else:
            found = engine_grad(
                tuple(each for each, _ in pairs), tuple(self.fresh), tuple(seed for _, seed in pairs),
                retain_graph=True, create_graph=True, allow_unused=True,
            )  # fmt: skip
        return [
            each.detach().new_zeros(each.shape) if one is None else one
            for each, one in zip(self.fresh, found, strict=True)
        ]

    def examples(self, wholes: Sequence[Any]) -> list[Any]:
        """Return plain tensors as values of single examples, without their graph where nobody else needs it."""
        return [_released(_example(each, self.level), self.fresh, self.level) for each in wholes]

    def released(self, tree: Any) -> Any:
        """Return results of the function without their graph where nobody else needs it."""
        return tree_map(lambda leaf: _released(leaf, self.fresh, self.level), tree)

    def by_argument(self, values: Sequence[Any]) -> list[Any]:
        """Return one tree per differentiated argument of values for its leaves."""
        found, start = [], 0
        for spec in self.structure:
            found.append(tree_unflatten(list(values[start : start + spec.num_leaves]), spec))
            start += spec.num_leaves
        return found


def argument_numbers(argnums: Any, args: tuple[Any, ...]) -> tuple[int, ...]:
    """Return which positional arguments are differentiated.

    Raises:
        RuntimeError: not ints, the same one twice, or none that is there.
    """
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not isinstance(argnums, int | tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for each in numbers:
        if not isinstance(each, int):
            raise RuntimeError(f"argnum must be int, got: {type(each)}")
        if not -len(args) <= each < len(args):
            raise RuntimeError(f"Got argnum={each}, but only {len(args)} positional inputs")
    found = tuple(each % len(args) for each in numbers)
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return found


def _split_aux(result: Any, has_aux: bool, function: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{function}: output of function f should be a tuple: (output, aux) if has_aux is True, got {type(result)}"
        )
    for each in tree_leaves(result[1]):
        if not isinstance(each, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(each)}")
    return result


def _flat_outputs(outputs: object, function: str) -> tuple[list[Tensor], TreeSpec]:
    """Return what a function returned as a list of tensors, and its structure.

    Raises:
        RuntimeError: it returned nothing, or something else than tensors.
    """
    leaves, spec = tree_flatten(outputs)
    if outputs is None or not leaves:
        raise RuntimeError(
            f"{function}: Expected f to be a function that has non-empty output (got output = {outputs})"
        )
    for each in leaves:
        if not isinstance(each, Tensor):
            raise RuntimeError(
                f"{function}: expected f(*primals) to return only tensors, got unsupported type {type(each)}"
            )
    return leaves, spec


# Gradients


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function of the same arguments that returns ``(gradient, value)``, or ``(gradient, (value, aux))``.

    Args:
        func: returns one number as a tensor; with ``has_aux`` that and anything else.
        argnums: which arguments to differentiate with respect to; a tuple gives a tuple of gradients.
        has_aux: whether the function returns more than the number.

    Raises:
        RuntimeError: the function returns no tensor of one number.
    """

    @named_after(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            run = _Run(func, args, kwargs, argument_numbers(argnums, args))
            output, aux = _split_aux(run.result, has_aux, "grad_and_value(f)(*args)")
            if not isinstance(output, Tensor):
                raise RuntimeError(
                    f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}"
                )
            if output.dim() != 0:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                    f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            whole = _whole(output, run.level)
            found = run.by_argument(run.examples(run.gradients([output], [whole.detach().new_ones(whole.shape)])))
        found = [_settled(each) for each in found]
        gradient = tuple(found) if isinstance(argnums, tuple) else found[0]
        value = _settled(run.released(output))
        return (gradient, (value, _settled(run.released(aux)))) if has_aux else (gradient, value)

    return wrapped


def _settled(tree: Any) -> Any:
    """Return results; where the caller records no gradients, without their graph."""
    if is_grad_enabled():
        return tree
    return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, tree)


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function of the same arguments that returns the gradient, or ``(gradient, aux)``.

    See :func:`grad_and_value` for the arguments and errors.
    """
    both = grad_and_value(func, argnums, has_aux)

    @named_after(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return ``(outputs, vjp_fn)``, or ``(outputs, vjp_fn, aux)``: ``vjp_fn`` takes cotangents, one per output, and returns
    the gradients of the primals.

    Raises:
        RuntimeError: the function returns something else than tensors, or cotangents of other sizes.
    """
    with enable_grad():
        run = _Run(func, primals, {}, range(len(primals)))
        outputs, aux = _split_aux(run.result, has_aux, "vjp(f, *primals)")
    leaves, spec = _flat_outputs(outputs, "vjp(f, *primals)")

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, given = tree_flatten(cotangents)
        if given != spec:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {_pictured(given)}, primal output: {_pictured(spec)}"
            )
        level = level_of(seeds, {})
        if level > run.level:
            # The call lies inside of a batch that the function's own was not in.
            return one_by_one(vjp_fn, level, (cotangents,), {})
        with enable_grad():
            found = run.gradients(leaves, [_whole(each, run.level) for each in seeds])
            parts = run.by_argument(run.examples(found))
        return tuple(_settled(each) for each in parts)

    result = _settled(run.released(outputs))
    return (result, vjp_fn, run.released(aux)) if has_aux else (result, vjp_fn)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return ``(outputs, products)`` of the Jacobian with the tangents, or ``(outputs, products, aux)``.

    Found by differentiating the vector-Jacobian product, which is linear in its vector, once more.

    Raises:
        RuntimeError: primals and tangents are no tuples of the same structure that have tensors only, or the function returns
            none, or with ``strict`` one that does not depend on the primals.
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    if tree_flatten(primals)[1] != tree_flatten(tangents)[1]:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, if "
            "primals is a tuple of 3 tensors, tangents also must be."
        )
    for name, each in (("primals", primals), ("tangents", tangents)):
        _require_tensors(tree_leaves(each), name)
    for primal, tangent in zip(tree_leaves(primals), tree_leaves(tangents), strict=True):
        if primal.shape != tangent.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
                f"supported. Tensor is of size {list(primal.shape)} while the given forward gradient is of size {list(tangent.shape)}."
            )
    with enable_grad():
        run = _Run(func, primals, {}, range(len(primals)), writable=True)
        outputs, aux = _split_aux(run.result, has_aux, "jvp(f, primals, tangents)")
        leaves, spec = _flat_outputs(outputs, "jvp(f, primals, tangents)")
        wholes = [_whole(each, run.level) for each in leaves]
        if strict and not all(each.requires_grad for each in wholes):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
                "with strict=True."
            )
        vectors = [each.detach().new_zeros(each.shape).requires_grad_() for each in wholes]
        found = run.gradients(leaves, vectors)
        given = [_whole(each, run.level) for each in tree_leaves(tangents)]
        pairs = [(one, each) for one, each in zip(found, given, strict=True) if one.requires_grad]
        products: Sequence[Any] = [None] * len(vectors)
        if pairs:
            products = engine_grad(
                tuple(one for one, _ in pairs), tuple(vectors), tuple(each for _, each in pairs),
                retain_graph=True, create_graph=True, allow_unused=True,
            )  # fmt: skip
        run.fresh = [*run.fresh, *vectors]
        products = [each.detach() if one is None else one for each, one in zip(vectors, products, strict=True)]
        results = tree_unflatten(run.examples(products), spec)
    value = _settled(run.released(outputs))
    return (value, _settled(results), run.released(aux)) if has_aux else (value, _settled(results))


class _Star:
    """Stands for a leaf where the structure of a tree is shown."""

    def __repr__(self) -> str:
        return "*"


def _pictured(spec: TreeSpec) -> object:
    return tree_unflatten([_Star()] * spec.num_leaves, spec)


def _require_tensors(leaves: Sequence[object], name: str) -> None:
    if not leaves:
        raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to contain at least one Tensor.")
    for each in leaves:
        if not isinstance(each, Tensor):
            raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to only contain Tensors, got {type(each)}")


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """Return the outputs and the function that takes tangents to products with the Jacobian at the primals."""

    def product(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), product


# Jacobians


def jacrev(
    func: Callable[..., Any],
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function of the same arguments that returns the Jacobian, row after row: of shape output × argument.

    Args:
        func: returns tensors.
        argnums: which arguments to differentiate with respect to; a tuple gives a tuple of Jacobians.
        has_aux: whether the function returns a pair, of which the second is handed on.
        chunk_size: rows are found one at a time whatever it is.

    Raises:
        RuntimeError: the function returns something else than tensors.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")
    return _jacobian(func, argnums, has_aux, "jacrev")


def _jacobian(
    func: Callable[..., object], argnums: int | tuple[int, ...], has_aux: bool, title: str
) -> Callable[..., object]:
    """Return the function whose results are the Jacobians of another; ``title`` is what errors call it."""

    @named_after(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            numbers = argument_numbers(argnums, args)
            _require_real(tree_leaves([args[number] for number in numbers]), title, "inputs", "input")
            run = _Run(func, args, kwargs, numbers)
            output, aux = _split_aux(run.result, has_aux, title)
            leaves, spec = _flat_outputs(output, "vjp(f, *primals)")
            _require_real(leaves, title, "outputs", "output")
            found = []
            for each in leaves:
                rows = run.examples(_rows(run, each))
                if title == "jacfwd":
                    rows = [by_columns(row, each.ndim) for row in rows]
                parts = run.by_argument(rows)
                found.append(tuple(parts) if isinstance(argnums, tuple) else parts[0])
        result = _settled(tree_unflatten(found, spec))
        return (result, run.released(aux)) if has_aux else result

    return wrapped


def _require_real(leaves: Sequence[object], title: str, what: str, one: str) -> None:
    for number, each in enumerate(leaves):
        if isinstance(each, Tensor) and each.dtype.is_complex:
            raise RuntimeError(
                f"{title}: Expected all {what} to be real but received complex tensor at flattened {one} idx: {number}"
            )


def _rows(run: _Run, output: Any) -> list[Any]:
    """Return the Jacobians of one output as plain tensors: batches, output, argument."""
    level, whole = run.level, _whole(output, run.level)
    batches, shape = tuple(whole.shape[:level]), tuple(whole.shape[level:])
    count = output.numel()
    columns: list[list[Any]] = [[] for _ in run.fresh]
    for row in range(count):
        seed = whole.detach().new_zeros((*batches, count))
        seed[..., row] = 1
        for column, each in zip(columns, run.gradients([output], [seed.reshape(whole.shape)]), strict=True):
            column.append(each)
    stack = OPERATIONS["stack"].function
    found = []
    for column, fresh in zip(columns, run.fresh, strict=True):
        inner = tuple(fresh.shape[level:])
        if not column:
            found.append(fresh.detach().new_zeros((*batches, *shape, *inner)))
        else:
            found.append(stack(column, level).reshape((*batches, *shape, *inner)))
    return found


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function of the same arguments that returns the Jacobian; what :func:`jacrev` returns, found as there."""
    return _jacobian(func, argnums, has_aux, "jacfwd")


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """Return a function of the same arguments that returns the second derivatives, of shape argument × argument."""
    return jacfwd(jacrev(func, argnums), argnums)
