"""Jacobians, Hessians and their products with vectors, as ``torch.autograd.functional``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..operations.creation.ranges import eye
from ..record.context import context
from ..record.grad_mode import enable_grad
from ..tensors.tensor import Tensor
from .engine import grad, stack

OUTPUTS = "outputs of the user-provided function"

_INDEPENDENT = {
    "outputs": "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {} is independent of the inputs of the user-provided function. This "
    "is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} "
    "is independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for example).",
}
_MISSING = {
    "back": "The output of the user-provided function is independent of input {}. This is not allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the "
    "double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict "
    "mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. This is "
    "not allowed in strict mode as it prevents from using the double backward trick to replace forward mode AD.",
}


def _as_tuple(value: Any, what: str, function: str) -> tuple[bool, tuple[Any, ...]]:
    """Return whether a value is a tuple, and it as one.

    Raises:
        TypeError: it is neither a tensor nor a tuple of tensors.
        RuntimeError: a transform of ``torch.func`` is calling.
    """
    if what == "inputs" and context.transforms:
        raise RuntimeError(
            f"{function}: functions of torch.autograd.functional cannot be called by a function that torch.func transforms: use "
            "torch.func.vjp, jvp, jacrev, jacfwd or hessian"
        )
    several = isinstance(value, tuple)
    pieces = value if several else (value,)
    for index, each in enumerate(pieces):
        if not isinstance(each, Tensor):
            found = (
                f"the value at index {index} has type {type(each)}"
                if several
                else f"the given {what} has type {type(each)}"
            )
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but {found}."
            )
    return several, pieces


def _prepared(inputs: Sequence[Any], create_graph: bool, needs_graph: bool = True) -> tuple[Any, ...]:
    """Return inputs that gradients are taken with respect to, linked to the caller's graph if one is to be made; or vectors."""
    return tuple(
        each.view_as(each) if create_graph and each.requires_grad else each.detach().requires_grad_(needs_graph)
        for each in inputs
    )


def _detached(values: Any, create_graph: bool) -> Any:
    if create_graph:
        return values
    if isinstance(values, tuple):
        return tuple(_detached(each, False) for each in values)
    return values.detach()


def _require(values: Sequence[Any], kind: str, strict: bool) -> None:
    if strict:
        for index, each in enumerate(values):
            if each is None:
                raise RuntimeError(_MISSING["back"].format(index))
            if not each.requires_grad:
                raise RuntimeError(_INDEPENDENT[kind].format(index))


def _check_vector(vector: Sequence[Any], other: Sequence[Any], several: bool) -> None:
    if len(vector) != len(other):
        if several:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(other)} but got {len(vector)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for index, (one, like) in enumerate(zip(vector, other, strict=True)):
        if one.shape != like.shape:
            entry = f"Entry {index} in " if several else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {like.shape} but got {one.shape}.")


def _gradients(outputs: Sequence[Any], inputs: Sequence[Any], seeds: Any, create_graph: bool, keep: bool) -> Any:
    """Return gradients, None where an input has none; outputs that need no gradient are left out."""
    seeds = [None] * len(outputs) if seeds is None else seeds
    pairs = [(one, seed) for one, seed in zip(outputs, seeds, strict=True) if one is not None and one.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [one for one, _ in pairs], inputs, [seed for _, seed in pairs], allow_unused=True, create_graph=create_graph,
        retain_graph=keep or create_graph,
    )  # fmt: skip


def _filled(found: Sequence[Any], like: Sequence[Any], strict: bool, create_graph: bool, stage: str) -> tuple[Any, ...]:
    """Return gradients with zeros where there is none, which strict mode does not allow."""
    result = []
    for index, (each, template) in enumerate(zip(found, like, strict=True)):
        if each is None:
            if strict:
                raise RuntimeError(_MISSING[stage].format(index))
            each = template.detach().new_zeros(template.shape)
        elif strict and create_graph and not each.requires_grad:
            what = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {index}. This is not allowed in strict "
                "mode when create_graph=True."
            )
        result.append(each)
    return tuple(result)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return ``func(*inputs)`` and the product of a vector with its Jacobian, as :func:`torch.autograd.functional.vjp`.

    Args:
        func: takes tensors and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: a vector of the shape of the outputs; may be left out where that is one element.
        create_graph: make the result differentiable.
        strict: raise where the output does not depend on an input, instead of returning zeros.

    Raises:
        RuntimeError: ``v`` does not fit, or strict mode finds independence.
        TypeError: something is neither a tensor nor a tuple of tensors.
    """
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "vjp")
        given = _prepared(given, create_graph)
        outputs = func(*given)
        several_out, results = _as_tuple(outputs, OUTPUTS, "vjp")
        _require(results, "outputs", strict)
        if v is not None:
            several_v, vector = _as_tuple(v, "v", "vjp")
            vector = _prepared(vector, create_graph, False)
            if several_out and not several_v and len(results) != 1:
                raise RuntimeError(f"v is a tuple of invalid length: should be {len(results)} but got 1.")
            _check_vector(vector, results, several_out)
        else:
            vector = None
            if len(results) != 1 or results[0].numel() != 1:
                raise RuntimeError(
                    "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                    "element."
                )
        found = _gradients(results, given, vector, create_graph, False)
        product = _filled(found, given, strict, create_graph, "back")
    outputs, product = _detached(results, create_graph), _detached(product, create_graph)
    return outputs if several_out else outputs[0], product if several else product[0]


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return ``func(*inputs)`` and the product of its Jacobian with a vector, by differentiating backward twice.

    The gradient ``J^T u`` is linear in ``u``: its own gradient against ``v`` is ``J v``.

    Args:
        func: takes tensors and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: a vector of the shape of the inputs; may be left out where that is one element.
        create_graph: make the result differentiable.
        strict: raise where the output does not depend on an input, instead of returning zeros.

    Raises:
        RuntimeError: ``v`` does not fit, or strict mode finds independence.
        TypeError: something is neither a tensor nor a tuple of tensors.
    """
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "jvp")
        given = _prepared(given, create_graph)
        vector = _input_vector(v, given, several, create_graph, "jvp")
        outputs = func(*given)
        several_out, results = _as_tuple(outputs, OUTPUTS, "jvp")
        _require(results, "outputs", strict)
        seeds = tuple(each.detach().new_zeros(each.shape).requires_grad_() for each in results)
        back = _gradients(results, given, seeds, True, True)
        _require(back, "grad_inputs", strict)
        pairs = [(one, each) for one, each in zip(back, vector or (None,) * len(back), strict=True)]
        found = _gradients([one for one, _ in pairs], seeds, [each for _, each in pairs], create_graph, False)
        product = _filled(found, results, strict, create_graph, "back_trick")
    outputs, product = _detached(results, create_graph), _detached(product, create_graph)
    return (outputs, product) if several_out else (outputs[0], product[0])


def _input_vector(v: Any, inputs: Sequence[Any], several: bool, create_graph: bool, function: str) -> Any:
    if v is not None:
        _, vector = _as_tuple(v, "v", function)
        vector = _prepared(vector, create_graph, False)
        _check_vector(vector, inputs, several)
        return vector
    if len(inputs) != 1 or inputs[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single element."
        )
    return None


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the Jacobian of a function, as :func:`torch.autograd.functional.jacobian`.

    Args:
        func: takes tensors and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        create_graph: make the result differentiable.
        strict: raise where an output does not depend on an input, instead of returning zeros.
        vectorize: accepted; rows are computed one by one and fused.
        strategy: ``"reverse-mode"`` goes row by row, ``"forward-mode"`` (with ``vectorize``) column by column.

    Returns:
        For each output and input a tensor of shape ``output.shape + input.shape``: a tensor, a tuple, or a tuple of tuples.

    Raises:
        RuntimeError: strict mode finds independence, or is combined with what it does not allow.
        TypeError: something is neither a tensor nor a tuple of tensors.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than '
            'inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        return _columns(func, inputs, create_graph, strict, vectorize)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please "
            "either set `strict=False` or `vectorize=False`."
        )
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "jacobian")
        given = _prepared(given, create_graph)
        outputs = func(*given)
        several_out, results = _as_tuple(outputs, OUTPUTS, "jacobian")
        _require(results, "outputs", strict)
        rows = tuple(_rows(number, each, given, create_graph, strict) for number, each in enumerate(results))
    rows = _detached(rows, create_graph)
    found = tuple(row if several else row[0] for row in rows)
    return found if several_out else found[0]


def _rows(number: int, output: Any, inputs: Sequence[Any], create_graph: bool, strict: bool) -> tuple[Any, ...]:
    """Return the derivatives of one output by every input."""
    size = output.numel()
    pieces: list[list[Any]] = [[] for _ in inputs]
    seeds = eye(size, dtype=output.dtype, device=output.device)
    for row in range(size):
        found = _gradients([output], inputs, [seeds[row].reshape(output.shape)], create_graph, True)
        for index, (each, given) in enumerate(zip(found, inputs, strict=True)):
            if each is None:
                if strict:
                    raise RuntimeError(
                        f"Output {number} of the user-provided function is independent of input {index}. This is not allowed "
                        "in strict mode."
                    )
                each = given.detach().new_zeros(given.shape)
            elif strict and create_graph and not each.requires_grad:
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {index}. This is not allowed in "
                    "strict mode when create_graph=True."
                )
            pieces[index].append(each)
    return tuple(
        stack(each).reshape((*output.shape, *given.shape)) if each else output.new_zeros((*output.shape, *given.shape))
        for each, given in zip(pieces, inputs, strict=True)
    )


def standard_basis(tensors: Sequence[Tensor], numels: Sequence[int]) -> tuple[Tensor, ...]:
    """Return the unit vectors of the space of all elements of tensors: for each tensor its part, ``[sum of numels, numel]``."""
    total, found, start = sum(numels), [], 0
    for each, count in zip(tensors, numels, strict=True):
        unit = eye(total, dtype=each.dtype, device=each.device)
        found.append(unit[:, start : start + count])
        start += count
    return tuple(found)


def by_columns(jacobian: Tensor, dims: int) -> Tensor:
    """Return a Jacobian of a result of so many dimensions that lies in memory as derivatives found one after another do."""
    shape = jacobian.shape
    if not jacobian.numel() or len(shape) == dims:
        return jacobian
    columns = jacobian.reshape((*shape[:dims], -1)).movedim(-1, 0).contiguous()
    return columns.movedim(0, -1).unflatten(-1, shape[dims:])


def _columns(func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    """Return the Jacobian by its products with unit vectors."""
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported together '
            '(yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
        )
    if create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported together '
            '(yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for `vectorize=True`."
        )
    several, given = _as_tuple(inputs, "inputs", "jacobian")
    columns: list[list[tuple[Any, ...]]] = []
    several_out = False
    for index, each in enumerate(given):
        units = eye(each.numel(), dtype=each.dtype, device=each.device)
        products = []
        for number in range(each.numel()):
            vector = tuple(
                units[number].reshape(other.shape) if place == index else other.detach().new_zeros(other.shape)
                for place, other in enumerate(given)
            )
            outputs, product = jvp(func, given, vector)
            several_out = isinstance(outputs, tuple)
            products.append(product if several_out else (product,))
        columns.append(products)
    count = len(columns[0][0])
    found = tuple(
        tuple(
            by_columns(
                stack([product[number] for product in products], -1).reshape((*products[0][number].shape, *each.shape)),
                products[0][number].ndim,
            )
            for products, each in zip(columns, given, strict=True)
        )
        for number in range(count)
    )
    rows = tuple(row if several else row[0] for row in found)
    return rows if several_out else rows[0]


def _single(func: Callable[..., Any], strict: bool, function: str) -> Callable[..., Any]:
    """Return the function, checked to return one tensor of one element."""

    def checked(*inputs: Any) -> Any:
        output = func(*inputs)
        several, results = _as_tuple(output, OUTPUTS, function)
        _require(results, "outputs", strict)
        if several or not isinstance(output, Tensor):
            raise RuntimeError(f"The function given to {function} should return a single Tensor")
        if output.numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {function} should contain a single element"
            )
        return output.squeeze() if function == "hessian" else output

    return checked


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False, vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """Return the second derivatives of a function with one element, as :func:`torch.autograd.functional.hessian`.

    Args:
        func: takes tensors and returns a tensor of one element.
        inputs: a tensor or a tuple of tensors.
        create_graph: make the result differentiable.
        strict: raise where the output does not depend on an input, instead of returning zeros.
        vectorize: accepted.
        outer_jacobian_strategy: how the Jacobian of the gradient is computed, as in :func:`jacobian`.

    Returns:
        For each pair of inputs a tensor of shape ``first.shape + second.shape``: a tensor, or a tuple of tuples.

    Raises:
        RuntimeError: the function returns anything else, or strict mode finds independence.
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    several, given = _as_tuple(inputs, "inputs", "hessian")
    checked = _single(func, strict, "hessian")

    def slope(*values: Any) -> Any:
        found = jacobian(checked, values, create_graph=True)
        _require(found, "jacobian", strict)
        return found

    rows = jacobian(slope, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return rows if several else rows[0][0]


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return ``func(*inputs)`` and the product of a vector with its Hessian, as :func:`torch.autograd.functional.vhp`.

    Args:
        func: takes tensors and returns a tensor of one element.
        inputs: a tensor or a tuple of tensors.
        v: a vector of the shape of the inputs; may be left out where that is one element.
        create_graph: make the result differentiable.
        strict: raise where the output does not depend on an input, instead of returning zeros.

    Raises:
        RuntimeError: ``v`` does not fit, the function returns anything else, or strict mode finds independence.
    """
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "vhp")
        given = _prepared(given, create_graph)
        vector = _input_vector(v, given, several, create_graph, "vhp")
        output = _single(func, strict, "vhp")(*given)
        slope = _gradients([output], given, None, True, True)
        _require(slope, "jacobian", strict)
        found = _gradients(slope, given, vector, create_graph, False)
        product = _filled(found, given, strict, create_graph, "double_back")
    output, product = _detached(output, create_graph), _detached(product, create_graph)
    return output, product if several else product[0]


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return ``func(*inputs)`` and the product of its Hessian with a vector, by differentiating backward twice.

    Args:
        func: takes tensors and returns a tensor of one element.
        inputs: a tensor or a tuple of tensors.
        v: a vector of the shape of the inputs; may be left out where that is one element.
        create_graph: make the result differentiable.
        strict: raise where the output does not depend on an input, instead of returning zeros.

    Raises:
        RuntimeError: ``v`` does not fit, the function returns anything else, or strict mode finds independence.
    """
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "hvp")
        given = _prepared(given, create_graph)
        vector = _input_vector(v, given, several, create_graph, "hvp")
        output = _single(func, strict, "hvp")(*given)
        slope = _gradients([output], given, None, True, True)
        _require(slope, "jacobian", strict)
        # The Hessian is symmetric where it is continuous, but what is promised is the product from the right.
        seeds = tuple(each.detach().new_zeros(each.shape).requires_grad_() for each in given)
        back = _gradients(slope, given, seeds, True, True)
        found = _gradients(back, seeds, vector, create_graph, False)
        product = _filled(found, given, strict, create_graph, "double_back_trick")
    output, product = _detached(output, create_graph), _detached(product, create_graph)
    return output, product if several else product[0]
