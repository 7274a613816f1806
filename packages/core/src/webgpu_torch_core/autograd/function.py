"""Custom differentiable functions: ``torch.autograd.Function``."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..notices import warn
from ..operations.creation.factories import zeros
from ..operations.in_place.writing import converted
from ..operations.reduction.reductions import sum_to_size
from ..record.grad_mode import recording
from ..record.node import FREED, Gradients, Node
from ..tensors.saved_tensors import SavedNothing, SavedResult, SavedTensor
from ..tensors.tensor import Tensor
from .forward_ad import tangents_of, unpacking, with_tangent, written_tangent
from .tangent_checks import check_constants, check_views
from .wrapping import unrecorded_outputs, wrap_outputs

#: shape, type and device of a tensor, None for anything else
Template: TypeAlias = Any


class FunctionContext:
    """What ``forward`` and ``backward`` of a :class:`Function` share; attributes of your own may be set on it."""

    def __init__(self) -> None:
        self._to_save: tuple[Any, ...] = ()
        self._to_forward: tuple[Any, ...] = ()
        self._saved: tuple[Any, ...] | None = None
        self._freed = False
        self._in_jvp = False
        self._non_differentiable: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._materialize = True
        self._materialize_non_diff_grads = True
        self._node: Any = None
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for ``backward``; in-place changes to them until then are detected.

        What is neither a tensor nor None raises a TypeError when ``forward`` is over, if a gradient is needed.
        """
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors of any shapes for ``jvp``, which finds them in :attr:`saved_tensors`.

        Raises:
            AssertionError: something is neither a tensor nor None.
        """
        if not all(each is None or isinstance(each, Tensor) for each in tensors):
            raise AssertionError(
                "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx."
            )
        self._to_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to :meth:`save_for_backward`; in ``jvp`` those given to :meth:`save_for_forward`.

        Raises:
            RuntimeError: one was modified in place since, or the graph was freed.
        """
        if self._in_jvp:
            return self._to_forward
        if self._freed:
            raise RuntimeError(FREED)
        if self._saved is None:
            return self._to_save
        node = self._node() if self._node is not None else None
        return tuple(
            each.unpack(node) if isinstance(each, SavedResult) else None if each is None else each.unpack()
            for each in self._saved
        )

    @property
    def _raw_saved_tensors(self) -> tuple[object, ...]:
        """What was saved, as it is kept: hooks may be registered on each."""
        if self._freed:
            raise RuntimeError(FREED)
        return tuple(SavedNothing() if each is None else each for each in self._saved or ())

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """An older name of :attr:`saved_tensors`."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", category=DeprecationWarning)
        return self.saved_tensors

    def mark_non_differentiable(self, *args: Any) -> None:
        """Declare outputs that have no gradient."""
        self._non_differentiable = args

    def mark_dirty(self, *args: Any) -> None:
        """Declare inputs that ``forward`` changed in place."""
        self._dirty = args

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether missing output gradients arrive as zeros (the default) or as None."""
        self._materialize = value

    def name(self) -> str:
        """Return the node's name."""
        node = self._node() if self._node is not None else None
        return "" if node is None else node.name()

    def _keep(self, node: Node) -> None:
        """Save what ``forward`` asked to; results of the function in a way that does not keep its node alive.

        Raises:
            TypeError: it asked to save what is no tensor.
        """
        for position, each in enumerate(self._to_save):
            if each is not None and not isinstance(each, Tensor):
                kind = type(each).__name__
                raise TypeError(f"save_for_backward can only save variables, but argument {position} is of type {kind}")
        self._saved = tuple(
            None
            if each is None
            else SavedResult(each, each._output_number)
            if each._grad_fn is node
            else SavedTensor(each)
            for each in self._to_save
        )
        self._to_save = ()


class FunctionNode(Node):
    """The node of one call of a :class:`Function`; what ``forward`` set on its context shows here, too."""

    custom = True

    __slots__ = ("constants", "context", "function", "inputs", "templates")

    def __init__(  # pyright: ignore[reportInconsistentConstructor]
        self, title: str, edges: Any, function: Any, context: FunctionContext, inputs: Any, templates: Any
    ) -> None:
        super().__init__(title, edges, _no_backward, len(templates))
        self.function = function
        self.context = context
        self.inputs = inputs
        self.templates = templates
        # The numbers of the outputs that have no gradient.
        self.constants: frozenset[int] = frozenset()
        context._node = weakref.ref(self)

    def __repr__(self) -> str:
        return f"<{Function.__module__}.{self.title} object at {id(self):#x}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "context":
            raise AttributeError(name)
        return getattr(self.context, name)

    def run(self, gradients: Gradients) -> Gradients:
        """Call the function's ``backward`` (or ``vjp``) and check what it returns."""
        context = self.context
        if unpacking() and all(each is None for each in gradients):
            # A result that has a tangent of its own hands nothing on.
            return [None] * len(self.edges)
        if context._materialize:
            gradients = [
                _zeros(template) if each is None and template else each
                for each, template in zip(gradients, self._materialized(), strict=True)
            ]
        parts = _backward_of(self.function)(context, *gradients)
        parts = parts if isinstance(parts, tuple) else (parts,)
        expected = len(self.edges)
        if len(parts) > expected and all(each is None for each in parts[expected:]):
            parts = parts[:expected]
        if len(parts) != expected:
            raise RuntimeError(
                f"function {self.title} returned an incorrect number of gradients (expected {expected}, got {len(parts)})"
            )
        return [self._checked(number, each) for number, each in enumerate(parts)]

    def _materialized(self) -> Sequence[Template]:
        """Return what zeros are made like for outputs of which no gradient arrives."""
        if self.context._materialize_non_diff_grads:
            return self.templates
        return [None if number in self.constants else each for number, each in enumerate(self.templates)]

    def _checked(self, number: int, gradient: Any) -> Any:
        """Return a gradient that fits its input.

        Raises:
            RuntimeError: it does not.
        """
        if gradient is None:
            return None
        if not isinstance(gradient, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(gradient).__name__})")
        given = self.inputs[number]
        if given is None:
            raise RuntimeError(
                f"function {self.title} returned a gradient different than None at position {number + 1}, but the "
                "corresponding forward input was not a Variable"
            )
        shape, dtype, device = given
        if self.edges[number] is None:
            return None
        if gradient.shape != shape:
            gradient = self._reduced(number, gradient, shape)
        if gradient.device != device:
            raise RuntimeError(
                f"Function {self.title} returned an invalid gradient at index {number} - expected device {device} but got "
                f"{gradient.device}"
            )
        return converted(gradient, dtype)

    def _reduced(self, number: int, gradient: Any, shape: tuple[int, ...]) -> Any:
        own = gradient.shape
        padded = (1,) * (len(own) - len(shape)) + shape
        fits = len(own) >= len(shape) and all(size in (1, other) for size, other in zip(padded, own, strict=True))
        if not fits:
            raise RuntimeError(
                f"Function {self.title} returned an invalid gradient at index {number} - got {list(own)} but expected shape "
                f"compatible with {list(shape)}"
            )
        return sum_to_size(gradient, shape)

    def release(self) -> None:
        """Drop what ``forward`` saved."""
        self.context._saved = ()
        self.context._freed = True


def _no_backward(*_: Any) -> None:
    """Stand where other nodes have their closure."""


def _zeros(template: tuple[Any, Any, Any]) -> Any:
    return zeros(template[0], dtype=template[1], device=template[2])


def _backward_of(function: Any) -> Any:
    if function.vjp is not Function.vjp:
        if function.backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one "
                "of them."
            )
        return function.vjp
    return function.backward


class _NodesOfClass:
    """The class of the nodes of a function's calls."""

    def __get__(self, instance: object, owner: type[Function]) -> type[FunctionNode]:
        return owner._kind()


class Function:
    """Base of custom differentiable functions: write static ``forward(ctx, …)`` and ``backward(ctx, *grads)``, call
    ``apply``.

    A class with ``setup_context(ctx, inputs, output)`` has ``forward`` without ``ctx``.
    """

    #: whether :meth:`forward` and :meth:`backward` compute whole batches of ``vmap`` as they compute one example
    generate_vmap_rule = False
    #: whether transforms of ``torch.func`` see nothing but the operations that it calls: of this library's own
    transformed = False
    #: what batches are answered with, ``NotImplemented`` where the function runs on an example that stands for its batch
    over_batches: Callable[[type[Function], tuple[Any, ...]], Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke "
            "them on the class itself. Instantiating an autograd function will raise an error in a future version of "
            "PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: functions are called by their class's ``apply``."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function "
            "with static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep what ``backward`` needs, where ``forward`` has no ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of each argument of ``forward``."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward "
            "mode AD."
        )

    #: another name of :meth:`backward`; write one of the two
    vjp = backward
    _backward_cls = _NodesOfClass()

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangent of each output, for forward-mode differentiation; without it ``backward`` is differentiated."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The rule of batching: return an output for whole batches, and where in each of its tensors the batch's dimension is.

        Args:
            info: ``batch_size`` and ``randomness`` of the call of ``vmap``.
            in_dims: which dimension of each argument counts examples, None for what all examples share.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record ``backward``."""
        apart = cls.setup_context is not Function.setup_context
        if recording.transforms and not cls.transformed and not apart:
            raise RuntimeError(
                "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override "
                "the setup_context staticmethod. For more details, please see "
                "https://pytorch.org/docs/main/notes/extending.func.html"
            )
        if apart and (kwargs or len(args) < cls.forward.__code__.co_argcount):
            # With what the call leaves to defaults: setup_context takes the inputs apart.
            args, kwargs = _positional(cls.forward, args, kwargs), {}
        if recording.transforms and (answer := Function.over_batches(cls, args)) is not NotImplemented:
            return answer
        context = FunctionContext()
        context.needs_input_grad = tuple(isinstance(each, Tensor) and each.requires_grad for each in args)
        records = recording.enabled and any(context.needs_input_grad)
        # What is changed in place has another edge afterwards.
        edges = tuple(each._gradient_edge() if isinstance(each, Tensor) else None for each in args) if records else ()
        # As they are before anything is written.
        given = tangents_of(args) if cls._has_tangents() else ()
        writes = [each._storage.version if isinstance(each, Tensor) else 0 for each in given]
        saved, recording.enabled = recording.enabled, False
        try:
            if apart:
                result = cls.forward(*args)
                cls.setup_context(context, args, result)
            else:
                result = cls.forward(context, *args, **kwargs)
        finally:
            recording.enabled = saved
        outputs = result if isinstance(result, tuple) else (result,)
        _check_marks(context, outputs)
        for each in context._dirty:
            # Counted as a write, whether or not there was one: what was saved of it before is out of date.
            each._storage.version += 1
        own = cls._tangents(context, args, given, outputs) if given else ()
        context._to_forward = ()
        if records:
            node = cls._node(context, edges, args, outputs)
            outputs = wrap_outputs(node, context, args, outputs)
            context._keep(node)
        else:
            outputs = unrecorded_outputs(context._dirty, args, outputs)
        if own:
            outputs = _with_tangents(
                context, args, result if isinstance(result, tuple) else (result,), outputs, given, own, writes
            )
        return outputs if isinstance(result, tuple) else outputs[0]

    @classmethod
    def _has_tangents(cls) -> bool:
        """Return whether tangents of arguments are of interest: ``jvp`` takes them, or nothing does, which it then says."""
        if cls.jvp is not Function.jvp:
            return True
        return cls.backward is Function.backward and cls.vjp is Function.vjp

    @classmethod
    def _tangents(
        cls,
        context: FunctionContext,
        args: tuple[object, ...],
        given: tuple[Tensor | None, ...],
        outputs: tuple[object, ...],
    ) -> tuple[Tensor | None, ...]:
        """Return the outputs' tangents as ``jvp`` gives them for those of the arguments.

        Raises:
            RuntimeError: there are not as many as outputs.
        """
        if context._materialize:
            given = tuple(
                _zeros(_template(each))
                if tangent is None and isinstance(each, Tensor) and each.dtype.category >= 2
                else tangent
                for each, tangent in zip(args, given, strict=True)
            )
        context._in_jvp = True
        try:
            found = cls.jvp(context, *given)
        finally:
            context._in_jvp = False
        found = found if isinstance(found, tuple) else (found,)
        check_constants(found, outputs, context._non_differentiable)
        if len(found) != len(outputs):
            raise RuntimeError(
                f"function {cls.__name__}: jvp returned {len(found)} tangents for {len(outputs)} outputs"
            )
        return found

    @classmethod
    def _kind(cls) -> type[FunctionNode]:
        kind = cls.__dict__.get("_node_kind")
        if kind is None:
            own = {"__slots__": (), "__doc__": FunctionNode.__doc__, "__module__": Function.__module__}
            kind = type(f"{cls.__name__}Backward", (FunctionNode,), own)
            cls._node_kind = kind  # type: ignore[attr-defined]
        return kind

    @classmethod
    def _node(cls, context: FunctionContext, edges: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> Node:
        kind = cls._kind()
        node = kind(kind.__name__, edges, cls, context, tuple(map(_template, args)), tuple(map(_template, outputs)))
        marked = context._non_differentiable
        if marked:
            numbers = range(len(outputs))
            node.constants = frozenset(each for each in numbers if any(outputs[each] is other for other in marked))
        return node


def _with_tangents(
    context: FunctionContext, args: Sequence[object], results: Sequence[object], outputs: Sequence[Tensor],
    given: Sequence[Tensor | None], own: Sequence[Tensor | None], writes: Sequence[int],
) -> tuple[object, ...]:  # fmt: skip
    """Return outputs with the tangents that ``jvp`` returned; ``writes`` counts what was written into each before."""
    written = [each is not None and each._storage.version > count for each, count in zip(given, writes, strict=True)]
    check_views(context._dirty, args, results, given, own, written)
    return tuple(
        each
        if tangent is None
        else written_tangent(each, tangent)
        if any(each is changed for changed in context._dirty)
        else with_tangent(each, tangent)
        for each, tangent in zip(outputs, own, strict=True)
    )


def _template(value: Any) -> Any:
    return (value._layout.shape, value.dtype, value.device) if isinstance(value, Tensor) else None


def _positional(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return a call's arguments in the order of the parameters, defaults filled in."""
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return (*bound.args, *bound.kwargs.values())


def _check_marks(context: FunctionContext, outputs: tuple[Any, ...]) -> None:
    for each in context._dirty:
        if not isinstance(each, Tensor):
            raise RuntimeError(f"mark_dirty can only accept variables, but argument is of type {type(each).__name__}")
        if not any(each is output for output in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
                "modified inplace must all be outputs of the Function."
            )
    for each in context._non_differentiable:
        if not isinstance(each, Tensor):
            raise RuntimeError(
                f"mark_non_differentiable only accepts variable arguments, but got {type(each).__name__}"
            )
