"""The functions that element-wise operations are called by, and results written into ``out``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...record.grad_mode import recording
from ...tensors.tensor import Tensor
from ..common import check_apart, require_castable, require_tensor
from ..in_place.writing import resize_as_result

if TYPE_CHECKING:
    from .call import Elementwise


def keyword_names(definition: Callable[..., Any]) -> list[str]:
    """Return the names of a definition's options."""
    code = definition.__code__
    return list(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])


def positional(definition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a definition that takes its options behind its operands."""
    names = keyword_names(definition)
    count = definition.__code__.co_argcount

    def by_position(*values: Any) -> Any:
        return definition(*values[:count], **dict(zip(names, values[count:], strict=True)))

    return by_position


def make_function(name: str, definition: Callable[..., Any], core: Elementwise, tensors: int) -> Any:
    """Return the torch-level function with the definition's own parameter names, so that signatures are real."""
    code = definition.__code__
    operands = list(code.co_varnames[: code.co_argcount])
    keywords = keyword_names(definition)
    defaults = definition.__kwdefaults__ or {}
    positional_defaults = definition.__defaults__ or ()
    plain = len(operands) - len(positional_defaults)
    scope: dict[str, Any] = {"_call": core.call, "_Tensor": Tensor, "_require": require_tensor}
    scope["_finish"] = partial(finish_out, exact=True) if core.facts.exact_out else finish_out
    parts = list(operands[:plain])
    for each, value in zip(operands[plain:], positional_defaults, strict=True):
        scope[f"_default_{each}"] = value
        parts.append(f"{each}=_default_{each}")
    parts.append("*")
    for each in keywords:
        scope[f"_default_{each}"] = defaults[each]
        parts.append(f"{each}=_default_{each}")
    parts.append("out=None")
    operand_tuple = "".join(f"{each}, " for each in operands)
    extra_tuple = "".join(f"{each}, " for each in keywords)
    checks = "".join(
        f"    if not isinstance({each}, _Tensor): _require('{name}', '{each}', {position}, {each})\n"
        for position, each in enumerate(operands[:tensors], 1)
    )
    source = (
        f"def {name}({', '.join(parts)}):\n{checks}"
        f"    _result = _call(({operand_tuple}), ({extra_tuple}))\n"
        f"    return _result if out is None else _finish(_result, out, ({operand_tuple}))\n"
    )
    exec(compile(source, f"<operation {name}>", "exec"), scope)
    function = scope[name]
    function.__doc__ = definition.__doc__
    function.__module__ = "webgpu_torch_core"
    function.backward = core.backward
    function.operation = core
    return function


def finish_out(result: Tensor, out: Tensor | None, operands: tuple[object, ...] = (), exact: bool = False) -> Tensor:
    """Return a result; where ``out`` is given, written into it, which is resized and laid out as the result is where it has another
    shape: operands may be ``out`` itself, and no other part of it.

    Raises:
        RuntimeError: the result's type cannot be cast to that of ``out`` (``exact``: is another), or gradients are recorded.
    """
    if out is None:
        return result
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    check_apart(out, *operands, but_same=True)
    if recording.enabled and (out.requires_grad or result.requires_grad):
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
        )
    # Magnitudes of complex numbers are converted.
    given = operands[0].dtype if operands and isinstance(operands[0], Tensor) else result.dtype
    converts = given.is_complex and (out.dtype.is_floating_point or out.dtype is given)
    if exact and out.dtype is not result.dtype and not converts:
        raise RuntimeError(f"Expected out tensor to have dtype {result.dtype.word}, but got {out.dtype.word} instead")
    require_castable(result.dtype, out.dtype)
    if out.device != result.device:
        raise RuntimeError(f"Expected out tensor to be on {result.device}, but it is on {out.device}")
    if out._layout.shape != result._layout.shape:
        resize_as_result(out, result._layout)
    out.copy_(result)
    return out
