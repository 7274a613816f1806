"""Recording an element-wise operation: promotion, broadcasting, one kernel per combination of layouts, its gradient."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import compress
from operator import is_not
from typing import Any

from ...bounded import Bounded
from ...dispatch import overrides
from ...dispatch.direct import DIRECT, NUMBERS, PLAIN, Direct
from ...dispatch.registry import Operation, register
from ...dispatch.titles import alone
from ...dispatch.type_rules import in_one_precision, rule, ruled_type
from ...ir import expression as ir
from ...ir import interpreter
from ...ir.dtypes import bool_, compute_dtype, dtype, float32
from ...ir.host_bytes import BEYOND, LEAST, refuse_integer
from ...ir.kernels import Operand, Output, Pointwise, Store
from ...ir.layouts import (
    Layout,
    broadcast_shapes,
    broadcast_strides,
    contiguous_layout,
    dense_strides,
    layout,
    same_places,
)  # fmt: skip
from ...ir.steps import differentiate
from ...record.context import default_float as default_float
from ...record.devices import MetaEngine
from ...record.grad_mode import recording
from ...record.lone import LONE_AFTER
from ...record.node import Node
from ...tensors.saved_tensors import SavedOperand
from ...tensors.tensor import MetaValue, Tensor, check_supported, new_storage, new_tensor
from ..common import needs_gradient, require_tensor, result_layout, same_device
from ..elements import at_start, is_taken, taken
from ..in_place.writing import make_in_place
from ..indexing.index_checks import require_divisor
from ..outputs import FOUND, finish_out
from ..without_derivatives import refusing
from .backward import Backward, Gradient
from .facts import Facts
from .promotion import result_type
from .python_numbers import number_leaf, plain, varies
from .refusals import refuse_options
from .resolution import Resolution

_instances: list[Elementwise] = []
_is_there = partial(is_not, None)


class Elementwise:
    """An operation given by a scalar definition.

    Promotion kinds: ``default`` (PyTorch's promotion), ``float`` (integers become the default float type), ``bool``
    (default promotion, boolean result), ``first`` (the result has the first operand's type).
    """

    def __init__(
        self,
        name: str,
        definition: Callable[..., Any],
        promotion: str,
        facts: Facts = Facts(),
        title: str | None = None,
        defaults: tuple[Any, ...] = (),
    ) -> None:
        self.name = name
        self.definition = definition
        self.promotion = promotion
        self.title = title or "".join(part.capitalize() for part in name.split("_")) + "Backward0"
        self.facts = facts
        self.node_title = facts.title or self.title
        # Which type a number stands for depends on the default type: each has resolutions of its own.
        self.caches: defaultdict[dtype, Bounded[tuple[Any, ...], Resolution]] = defaultdict(partial(Bounded, 4096))
        self.cache = self.caches[default_float[0]]
        _instances.append(self)
        # Options at their default specialise the kernel (alpha = 1 multiplies nothing); other numbers are parameters.
        self.defaults = defaults
        self.default_key = tuple([part for each in defaults for part in (each.__class__, each)])
        self.declared: Callable[..., Any] | None = None
        # By an operand and options what computes its gradient.
        self.gradients: dict[tuple[int, tuple[object, ...]], Gradient] = {}
        # A gradient derived from the expression has no Python text of its own to step through.
        self.runs_on_numbers = True
        # By the number of an operand that PyTorch has no derivative for: what backward raises.
        self.refused: dict[int, Exception] = {}
        # Whether that is so only where the first operand is a number.
        self.refused_beside_numbers = False

    def backward(self, gradient: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the gradient: a scalar function ``(grad, *arguments)`` returning one value per operand."""
        self.declared = gradient
        return gradient

    # Recording

    def call(self, operands: tuple[Any, ...], extras: tuple[Any, ...] | None = None) -> Tensor:
        """Record the operation over tensors and numbers and return the result; options have their defaults if not given."""
        key: list[Any] = []
        values: list[Any] = []
        parameters: list[Any] = []
        place: Any = None
        tracked: bool | None = False
        for each in operands:
            if isinstance(each, Tensor):
                value, layout_, here = each._storage.value, each._layout, each._device
                if place is None:
                    place = here
                elif here is not place and here != place:
                    return self.call(same_device(self.name, operands), extras)
                if layout_.offset and is_taken(each):
                    value, layout_ = taken(value, layout_, each.dtype), at_start(layout_)
                # The kernel describes its whole buffers, of which the layout may be a part.
                key += layout_, each._dtype, value.numel
                values.append(value)
                if each._requires_grad or each._grad_fn is not None:
                    tracked = True
                elif not tracked and each._base is not None:
                    # A view may have a gradient since its base was written to.
                    tracked = None
            else:
                key.append(type(each))
                parameters.append(each if each.__class__ is not int or LEAST <= each < BEYOND else refuse_integer(each))
        if extras is None:
            extras = self.defaults
            key.append(self.default_key)
        else:
            self._add_options(extras, key, parameters)
        found = self.cache.get(identity := tuple(key))
        if found is None:
            found = self._unseen(identity, operands, extras)
            if not isinstance(found, Resolution):
                return found
        if found.divides and found.layout.numel:
            require_divisor(self.name, operands[1])
        engine = values[0].engine
        if engine.__class__ is MetaEngine:
            value = MetaValue(engine, found.dtype, found.layout.numel)
        else:
            if found.dtype not in engine.device.dtypes:
                check_supported(engine, found.dtype)
            value = engine.record(found.kernel, values, parameters)[0]
        result = new_tensor(new_storage(value), found.layout, found.dtype, place)
        may = tracked is not False and found.dtype.category >= 2 and recording.enabled
        if may and (tracked or needs_gradient(*operands)):
            self._track(found, result, operands, extras)
        return result

    def operator(self, otherwise: Callable[..., object]) -> Callable[..., object]:
        """Return the operator of plain tensors and numbers, which takes fewer steps where none is a view; what else it is given, or all
        while modes look, another function answers."""

        def operator(one: Tensor, other: Tensor, *more: object) -> object:
            kind = type(other)
            if overrides._active or more or (kind is not Tensor and kind not in PLAIN and kind not in NUMBERS):
                return otherwise(one, other, *more)
            value, place = one._storage.value, one._device
            parameters: tuple[Any, ...] = ()
            if kind is Tensor:
                second = other._storage.value
                found = self.cache.get(
                    (one._layout, one._dtype, value.numel, other._layout, other._dtype, second.numel, self.default_key)
                )
                values = (value, second)
                plain = place is other._device and one._base is None and other._base is None
                tracked = (
                    one._requires_grad or other._requires_grad or one._grad_fn is not None or other._grad_fn is not None
                )
            else:
                found = self.cache.get((one._layout, one._dtype, value.numel, kind, self.default_key))
                values, parameters = (value,), (other,)
                plain = one._base is None and (kind is float or (kind is int and LEAST <= other < BEYOND))
                tracked = one._requires_grad or one._grad_fn is not None
            engine = value.engine
            if not plain or found is None or not found.is_plain or found.dtype not in engine.dtypes:
                return self.call((one, other))
            recorder, alone, made = engine.recorders.own, found.alone, None
            if recorder.lone >= LONE_AFTER and alone is not None and alone.engine is engine:
                # As :meth:`Engine.record`, without looking for it.
                made = alone.run(recorder, values, parameters)
            if made is None:
                made = engine.record(found.kernel, values, parameters)
                found.alone = engine.lone.get(id(found.kernel)) if recorder.unread else None
            result = new_tensor(new_storage(made[0]), found.layout, found.dtype, place)
            if tracked and found.dtype.category >= 2 and recording.enabled:
                self._track(found, result, (one, other), self.defaults)
            return result

        return operator

    def _add_options(self, extras: tuple[object, ...], key: list[object], parameters: list[object]) -> None:
        """Add options that are numbers given at run time to a call's parameters, others to its key."""
        options: list[object] = []
        for each, default in zip(extras, self.defaults, strict=True):
            # True, 1 and 1.0 are equal, and not the same option.
            options.append(each.__class__)
            (parameters if each is not default and varies(each, default) else options).append(each)
        key.append(tuple(options))

    def _unseen(
        self, identity: tuple[object, ...], operands: tuple[object, ...], extras: tuple[object, ...]
    ) -> Resolution | Tensor:
        """Return the resolution of a call of a new kind, or the result of one that has none of its own."""
        tensors = any(isinstance(each, Tensor) for each in operands)
        if not tensors or any(type(each).__module__ == "numpy" for each in operands):
            return self.call(plain(self.name, self.facts.takes_numbers, operands), extras)
        unseen = ruled_type(operands)
        return (
            self._resolve(identity, operands, extras) if unseen is None else self._call_rule(unseen, operands, extras)
        )

    def _call_rule(self, unseen: dtype, operands: tuple[object, ...], extras: tuple[object, ...]) -> Tensor:
        kind = result_type(*operands)
        if self.facts.refuses is not None:
            self.facts.refuses(operands, kind)
        alike = in_one_precision(operands, kind) if kind.is_complex else operands
        result = rule(self.name, unseen)(None, *alike, *extras)
        alone(result, operands, self.node_title)
        found, wanted = result._layout, self._result_layout(operands, result._layout.shape, kind)
        if not found.numel or (found.offset == 0 and same_places(found, wanted)):
            # Strides of what has no elements, or only one in a dimension, are PyTorch's too.
            result._layout = wanted
        return result

    def _result_layout(self, operands: tuple[object, ...], shape: tuple[int, ...], kind: dtype) -> Layout:
        facts = self.facts
        if facts.row_major:
            return contiguous_layout(shape)
        if kind.category in facts.like_nothing and 0 in shape:
            return layout(shape, next(each._layout.strides for each in operands if isinstance(each, Tensor)))
        ordered = (*operands[facts.decides :], *operands[: facts.decides])
        found = result_layout(ordered, shape, facts.numbers_apart)
        return layout(shape, dense_strides(shape, found.strides)) if facts.in_two_steps and 0 in shape else found

    def _resolve(self, identity: tuple[Any, ...], operands: tuple[Any, ...], extras: tuple[Any, ...]) -> Resolution:
        shape = broadcast_shapes(*(each._layout.shape for each in operands if isinstance(each, Tensor)))
        promoted, result = self._types(operands, extras)
        compute = compute_dtype(promoted)
        leaves: list[ir.Expression] = []
        arguments: list[Any] = []
        kernel_operands: list[Operand] = []
        parameter_types: list[dtype] = []
        for position, each in enumerate(operands):
            wide = self.facts.wide_second and position == 1 and promoted.category == 2
            if isinstance(each, Tensor):
                strides = broadcast_strides(each._layout, shape)
                offset, numel = (0, 1) if is_taken(each) else (each._layout.offset, each._storage.value.numel)
                leaf = ir.load(len(kernel_operands), offset, strides, each.dtype)
                kernel_operands.append(Operand(each.dtype, numel))
                wide = wide and not each._layout.ndim
            else:
                leaf = number_leaf(each, promoted, compute, parameter_types)
                wide = wide or compute is promoted or not (self.facts.rounds_numbers or self.facts.wide_second)
            leaves.append(ir.cast(leaf if wide else ir.cast(leaf, promoted), compute))
        for each, default in zip(extras, self.defaults, strict=True):
            leaf = number_leaf(each, promoted, compute, parameter_types) if varies(each, default) else each
            arguments.append(leaf)
        expression = self.definition(*leaves, *arguments)
        if not isinstance(expression, ir.Expression):
            expression = ir.constant(expression, compute)
        if result is not bool_ and result is not promoted and result.category == promoted.category:
            expression = ir.cast(expression, promoted)
        value = ir.cast(expression, result)
        out = self._result_layout(operands, shape, promoted)
        kernel = Pointwise(
            tuple(kernel_operands), (Output(result, out.numel, None),), tuple(parameter_types), self.name, shape,
            (Store(0, 0, out.strides, value),),
        )  # fmt: skip
        begins = all(not each.payload[1] for each in ir.topological(value) if each.step == "load")
        found = Resolution(kernel, out, result, self.facts.divides and promoted.category == 1, begins)
        self.cache[identity] = found
        if self.runs_on_numbers and all(isinstance(each, ir.Expression) for each in arguments):
            interpreter.register_definition(kernel, self.definition, (*leaves, *arguments))
        return found

    def _types(self, operands: tuple[Any, ...], extras: tuple[Any, ...]) -> tuple[dtype, dtype]:
        promoted = result_type(*operands)
        refuse_options(self.name, extras, promoted)
        if self.facts.refuses is not None:
            self.facts.refuses(operands, promoted)
        if self.facts.whole and promoted.category >= 2:
            raise NotImplementedError(f"{self.name} takes integers and booleans, and there is none for {promoted!r}")
        if self.promotion == "float" and promoted.category < 2:
            promoted = default_float[0]
        if self.facts.result_dtype is not None:
            return promoted, self.facts.result_dtype(operands)
        return promoted, bool_ if self.promotion == "bool" else promoted

    # Gradient

    def _track(self, found: Resolution, result: Tensor, operands: tuple[Any, ...], extras: tuple[Any, ...]) -> None:
        edges = tuple([each._gradient_edge() if isinstance(each, Tensor) else None for each in operands])
        wanted = tuple(map(_is_there, edges))
        known = found.gradients.get(wanted)
        if known is None:
            # First: another thread may find what is next.
            found.kinds = [(each._layout.shape, each.dtype) if isinstance(each, Tensor) else None for each in operands]
            known = found.gradients[wanted] = self._gradients(wanted, extras)
        gradients, needed = known
        if self.facts.saves_result and 0 in needed:
            saved: dict[int, Any] = {0: SavedOperand(operands[0], edges[0], result, self.title)}
        else:
            saved = {}
            for index in needed:
                each = operands[index]
                saved[index] = each._save() if isinstance(each, Tensor) else each
        of_result = self if self.facts.saves_result else None
        run_backward: Callable[..., Any] = Backward(gradients, found.kinds, saved, extras, of_result)
        for index, error in self.refused.items() if self.refused else ():
            # Of some PyTorch lacks the derivative only where the other operand is a number.
            beside_number = index == 1 and self.refused_beside_numbers and isinstance(operands[0], Tensor)
            if edges[index] is not None and not beside_number:
                run_backward = refusing(error)
        title = self.node_title
        result._grad_fn = Node(title if isinstance(title, str) else title(operands), edges, run_backward)

    def _gradients(self, wanted: tuple[bool, ...], extras: tuple[object, ...]) -> tuple[list[Gradient], list[int]]:
        """Return what computes the gradient of each operand that wants one, and the operands that any of it needs."""
        static = tuple(
            [
                None if varies(each, default) else (each.__class__, each)
                for each, default in zip(extras, self.defaults, strict=True)
            ]
        )
        numbers = list(compress(range(len(wanted)), wanted))
        for index in numbers:
            if (index, static) not in self.gradients:
                self.gradients[index, static] = (index, *self._make_gradient(index, len(wanted), extras))
        entries = [self.gradients[index, static] for index in numbers]
        return entries, sorted({each for _, _, used in entries for each in used})

    def _make_gradient(
        self, index: int, count: int, extras: tuple[object, ...]
    ) -> tuple[Elementwise | None, tuple[int, ...]]:
        def gradient_of(grad: Any, values: list[Any], extra: tuple[Any, ...]) -> Any:
            if self.declared is not None:
                parts = self.declared(grad, *values, *extra)
                return parts[index] if isinstance(parts, tuple) else parts
            placeholders = [ir.argument(each, value.dtype) for each, value in enumerate(values)]
            traced = self.definition(*placeholders, *extra)
            known = isinstance(traced, ir.Expression)
            part = differentiate(traced, ir.argument(count, grad.dtype)).get(index) if known else None
            return None if part is None else ir.substitute(part, (*values, grad))

        probe = [ir.argument(each, float32) for each in range(count)]
        symbols = tuple(
            ir.parameter(number, float32) if varies(each, self.defaults[number]) else each
            for number, each in enumerate(extras)
        )
        traced = gradient_of(ir.argument(count, float32), probe, symbols)
        if traced is None:
            # Steps (sign, floor, round, …) have a gradient, as in PyTorch: zeros.
            traced = ir.constant(0.0, float32)
        if not isinstance(traced, ir.Expression):
            traced = ir.constant(traced, float32)
        if traced.step == "argument" and traced.payload == count:
            # What arrives, as it is.
            return None, ()
        used = tuple(sorted({n.payload for n in ir.topological(traced) if n.step == "argument" and n.payload != count}))

        def definition(grad: Any, *rest: Any) -> Any:
            # Operands the gradient does not use are not passed; any expression may stand for them.
            values = [grad] * count
            for position, each in enumerate(used):
                values[each] = rest[position]
            found = gradient_of(grad, values, rest[len(used) :])
            return 0.0 if found is None else found

        name = f"{self.name}_backward" if count == 1 else f"{self.name}_backward_{index}"
        decided = dict(enumerate(self.facts.gradients_decided)).get(index, 0) - 1
        facts = Facts(decides=used.index(decided) + 1 if decided in used else 0)
        title = f"{self.title[:-1]}Backward0"
        result = Elementwise(name, definition, "float", facts, title, self.defaults)
        result.runs_on_numbers = self.declared is not None
        return result, used


def use_default_float(kind: dtype) -> None:
    """Make Python floats and new tensors take a type."""
    default_float[0] = kind
    for each in _instances:
        each.cache = each.caches[kind]


def elementwise(
    definition: Callable[..., Any] | None = None,
    *,
    promotion: str = "default",
    namespace: str = "torch",
    method: bool | None = None,
    aliases: tuple[str, ...] = (),
    in_place: bool = True,
    tensors: int = 0,
    **facts: Any,
) -> Any:
    """Declare an element-wise operation from its scalar definition.

    The definition's positional parameters are operands (tensors or numbers), its keyword-only ones are options: numbers
    become run-time parameters, anything else specialises the kernel. The result is the torch-level function; its
    ``backward`` attribute declares a gradient where the one derived from the definition would not be the best.
    ``tensors``: how many leading operands may not be numbers. ``facts``: as in :class:`Facts`.
    """

    def decorate(definition: Callable[..., Any]) -> Any:
        name = definition.__name__
        formula = definition if not _keyword_names(definition) else _positional(definition)
        defaults = tuple((definition.__kwdefaults__ or {}).values())
        core = Elementwise(name, formula, promotion, Facts(**facts), defaults=defaults)
        function = _make_function(name, definition, core, tensors)
        if tensors < 2:
            DIRECT[function] = Direct(core.call, definition.__code__.co_argcount)
        is_method = namespace == "torch" if method is None else method
        entry = register(Operation(name, namespace, "elementwise", function, is_method, aliases))
        entry.definition = core
        if is_method and in_place and promotion != "bool_only":
            entry.in_place = f"{name}_"
            changed = make_in_place(function, entry.in_place)
            for each in (name, *aliases):
                setattr(Tensor, f"{each}_", changed)
        return function

    return decorate if definition is None else decorate(definition)


def _keyword_names(definition: Callable[..., Any]) -> list[str]:
    code = definition.__code__
    return list(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])


def _positional(definition: Callable[..., Any]) -> Callable[..., Any]:
    names = _keyword_names(definition)
    count = definition.__code__.co_argcount

    def positional(*values: Any) -> Any:
        return definition(*values[:count], **dict(zip(names, values[count:], strict=True)))

    return positional


def _make_function(name: str, definition: Callable[..., Any], core: Elementwise, tensors: int) -> Any:
    """Return the torch-level function with the definition's own parameter names, so that signatures are real."""
    code = definition.__code__
    operands = list(code.co_varnames[: code.co_argcount])
    keywords = _keyword_names(definition)
    defaults = definition.__kwdefaults__ or {}
    positional_defaults = definition.__defaults__ or ()
    plain = len(operands) - len(positional_defaults)
    scope: dict[str, Any] = {"_call": core.call, "_Tensor": Tensor, "_require": require_tensor}
    scope["_finish"] = partial(finish_out, exact=True, refusal=FOUND) if core.facts.exact_out else finish_out
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
