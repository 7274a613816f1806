"""``__torch_function__``: calls that go to the classes of their arguments, or to a mode, instead of to the operation.

The protocol and its rules of precedence are PyTorch's, which follow NumPy's ``__array_function__`` (NEP 18). While no
class overrides anything and no mode is open, a public function only looks at one flag.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from ..record.context import context, handed_on
from ..tensors.tensor import Tensor
from .argument_types import misfit, options_of, overloads_of
from .autocast import follows_rule, with_autocast
from .deprecated_overloads import modern_arguments
from .direct import DIRECT, PLAIN
from .numpy_names import other_names
from .output_errors import RefusedOutput
from .python_functions import spelled_out, written_in_python
from .refused_outputs import refusal_of_out
from .torch_dispatch import UNANSWERED, Disabled, Dispatching, first_answer, insert, notice_answering

#: whether anything may override: a class was made that does, an object was seen that does, or a mode is open
_active = False
_lasting = False
_open_modes = 0
_lock = threading.RLock()
#: what is told that reads of properties may be overridden from now on, or cannot be any more
listeners: list[Callable[[bool], None]] = []
#: every overridable function and where it is found
PATHS: dict[Any, str] = {}
#: operators of two operands that are reported by their own names
_BINARY = frozenset(
    "and rand iand or ror ior xor rxor ixor lshift rlshift ilshift rshift rrshift irshift eq rsub rdiv rmod rpow floordiv "
    "rfloordiv rmatmul".split()
)
_NEVER = frozenset((Tensor, int, float, bool, complex, str, type(None), slice, type(Ellipsis), dict))


class _State(threading.local):
    def __init__(self) -> None:
        self.modes: list[Any] = []
        self.off = False
        self.subclasses_off = False


_state = _State()
handed_on.append(_state)


class _Region:
    def __init__(self) -> None:
        self._before: list[Any] = []


class DisableTorchFunctionSubclass(_Region):
    """A region in which classes override nothing; modes still do."""

    def __enter__(self) -> None:
        self._before.append(_state.subclasses_off)
        _state.subclasses_off = True

    def __exit__(self, *_: object) -> None:
        _state.subclasses_off = self._before.pop()


#: what a class sets as ``__torch_function__`` to override nothing, as ``torch.nn.Parameter`` does
disabled_implementation = Disabled("_disabled_torch_function_impl", DisableTorchFunctionSubclass)


class DisableTorchFunction(_Region):
    """A region in which neither classes nor modes override anything."""

    def __enter__(self) -> None:
        self._before.append(_state.off)
        _state.off = True

    def __exit__(self, *_: object) -> None:
        _state.off = self._before.pop()


class EnableTorchFunction(_Region):
    """A region in which classes and modes override again, inside one where they do not."""

    def __enter__(self) -> None:
        self._before.append((_state.off, _state.subclasses_off))
        _state.off = _state.subclasses_off = False

    def __exit__(self, *_: object) -> None:
        _state.off, _state.subclasses_off = self._before.pop()


class TorchFunctionMode:
    """A region in which every call of the public API goes to :meth:`__torch_function__`, whatever its arguments.

    Inside its own handler a mode is closed, so that the handler may call the function it was given.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a call.

        Raises:
            NotImplementedError: the subclass does not define it.
        """
        raise NotImplementedError

    def __enter__(self) -> Any:
        _state.modes.append(self)
        count_modes(1)
        return self

    def __exit__(self, *_: object) -> None:
        count_modes(-1)
        _state.modes.pop()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a mode, for ``with``."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that lets every call through."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


def close_mode(mode: TorchFunctionMode) -> None:
    """Close a mode that may not be the innermost one of this thread."""
    if mode in _state.modes:
        _state.modes.remove(mode)
    count_modes(-1)


def mode_stack() -> list[Any]:
    """Return the modes that are open in this thread, the innermost last."""
    return list(_state.modes)


def intercepted() -> bool:
    """Return whether calls go elsewhere in this thread: to a mode, or past all overriding."""
    return bool(_state.modes) or _state.off or _state.subclasses_off


def is_enabled() -> bool:
    """Return whether classes may override in this thread."""
    return not (_state.off or _state.subclasses_off)


# Who overrides


def _overrides(kind: type) -> bool:
    handler = getattr(kind, "__torch_function__", None)
    if handler is None or handler is disabled_implementation:
        return False
    function = getattr(handler, "__func__", handler)
    # PyTorch's own tensors and parameters, to be converted here, have handlers too: they would hand the call back.
    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", "")
    return name != disabled_implementation.__name__ and module != "torch._tensor"


def _overloaded(values: Iterable[Any], found: list[Any], plain: bool = False, nested: bool = True) -> list[Any]:
    """Collect one argument of each overriding type, in the order of :func:`.torch_dispatch.insert`."""
    for each in values:
        kind = type(each)
        if kind in _NEVER and not (plain and kind is Tensor):
            continue
        if kind is list or kind is tuple:
            if nested and each and type(each[0]) not in (int, float, str):
                _overloaded(each, found, plain, False)
        elif _overrides(kind):
            insert(each, found)
    return found


def notice(args: Any, kwargs: Any) -> bool:
    """Return whether an argument that is no tensor overrides; from then on every call looks for such arguments."""
    global _active, _lasting
    # What a function calls may have noticed them before it failed.
    if not (_overloaded(args, []) or _overloaded(kwargs.values(), [])):
        return False
    with _lock:
        _active = _lasting = True
    return True


def any_overrides(values: Iterable[object]) -> bool:
    """Return whether one of these objects overrides."""
    return bool(_overloaded(values, []))


def _notify(active: bool) -> None:
    for listener in listeners:
        listener(active)


def notice_class(kind: type) -> None:
    """Look for overriding arguments from now on, if a class of which there is an object overrides.

    Libraries define classes that most programs make no objects of: those cost nothing.
    """
    global _active, _lasting
    if (Dispatching.lasting and _lasting) or kind in PLAIN:
        return
    if notice_answering(kind) or (not _lasting and _overrides(kind)):
        with _lock:
            _active = _lasting = True
            _notify(True)


def forget_classes() -> None:
    """Look for nothing any more on behalf of classes of which there were objects; tests begin as programs do."""
    global _lasting
    with _lock:
        _lasting = Dispatching.lasting = False
        Dispatching.active = Dispatching.modes > 0
    count_modes(0)


def count_modes(step: int) -> None:
    global _active, _open_modes
    with _lock:
        _open_modes += step
        if _open_modes:
            _active = True
            _notify(True)
        elif not _lasting:
            _active = False
            _notify(False)


# Calls


def public(
    function: Callable[..., Any], path: str, declared: Callable[..., Any] | None = None, whole: bool = False
) -> Callable[..., Any]:
    """Return a function as the public API has it: all that lies between a call and its operation.

    Calls go to overriding arguments and modes first. ``declared`` is what ``function`` is without autocast and other names of
    arguments: it answers where neither is asked for, or what it records is recorded without a call of it (:mod:`.direct`).
    ``whole``: plain tensors are named among the ``types``. The function raises a TypeError where an option, or an argument of
    a call that failed, is of a type that its declaration excludes.
    """
    inner = declared or function
    options = options_of(function, written_in_python(path) or path.startswith(("torch.masked.", "torch.signal.")))
    by_name, by_place, nothing = options.by_name, options.by_place, dict[str, object]()
    overloads = overloads_of(function, path)
    names, casts = other_names(function), follows_rule(function)
    record, operands = DIRECT.get(inner, (None, 0))

    def call(*args: Any, **kwargs: Any) -> Any:
        if _active:
            return dispatch(call, function, args, kwargs, whole)
        try:
            if overloads is not None:
                overloads.require(args, kwargs)
            # What options.require would find right, without calling it.
            if kwargs:
                for name, value in kwargs.items():
                    if value.__class__ not in by_name[name]:
                        options.require(args, kwargs, path)
            first = options.first
            if len(args) > first and (first + 1 < len(args) or args[first].__class__ not in by_place[first]):
                options.require(args, nothing, path)
            if (casts and context.casting) or (kwargs and not names.isdisjoint(kwargs)):
                return function(*args, **kwargs)
            if record is None:
                return inner(*args, **kwargs)
            if not operands:
                return record(args, kwargs)
            plain = len(args) == operands and not kwargs and args[0].__class__ in PLAIN
            return record(args) if plain else inner(*args, **kwargs)
        except Exception as error:
            # Only a call that failed is worth looking for objects of other classes that override, or of wrong types.
            if not notice(args, kwargs):
                return _otherwise(function, path, args, kwargs, error)
        return dispatch(call, function, args, kwargs, whole)

    # What functools.wraps does in a dozen calls, for a thousand functions whenever core is imported.
    call.__module__, call.__name__, call.__qualname__ = function.__module__, function.__name__, function.__qualname__
    call.__doc__, call.__annotations__ = function.__doc__, function.__annotations__
    call.__dict__.update(function.__dict__)
    call.__wrapped__ = function  # type: ignore[attr-defined]
    PATHS[call] = path
    return call


def renamed(function: Any, path: str, name: str) -> Callable[..., Any]:
    """Return a public function as another place of the API has it."""
    made = public(function.__wrapped__, path)
    made.__name__ = name
    made.__qualname__ = path.rpartition(".")[2]
    return made


def publish(names: dict[str, Any], home: str) -> None:
    """Make the public functions that a module defines overridable, and follow their rules of autocast; called at its end with its ``globals()``.

    ``home``: where programs find them, such as ``torch``.
    """
    for name, value in list(names.items()):
        if type(value) is _Function and value.__module__ == names["__name__"] and not name.startswith("_"):
            names[name] = public(with_autocast(name, value), f"{home}.{name}", value)


_Function = type(publish)


def dispatch(call: Any, function: Any, args: Any, kwargs: Any, whole: bool = False) -> Any:
    state = _state
    if state.off:
        return _called(call, function, args, kwargs)
    found: list[Any] = []
    if not state.subclasses_off:
        _overloaded(args, found)
        if kwargs:
            _overloaded(kwargs.values(), found)
    if not (found or state.modes):
        return _called(call, function, args, kwargs)
    if whole and found:
        found = _overloaded((*args, *kwargs.values()), [], plain=True)
    return _ask(call, found, args, kwargs)


def _otherwise(
    function: Callable[..., object], path: str, args: tuple[object, ...], kwargs: dict[str, object], error: Exception
) -> object:
    """Return the answer to a failed call if its form is one that PyTorch deprecated.

    Raises:
        TypeError: an argument is of a wrong type, missing, unknown or one too many, and the error does not say so itself.
        Exception: the error, else.
    """
    wrong: Exception | None = error if isinstance(error, RefusedOutput) else None
    modern = modern_arguments(function.__name__, args, kwargs)
    if modern is not None:
        try:
            return function(*modern[0], **modern[1])
        except RefusedOutput as refused:
            wrong, (args, kwargs) = refused, modern
    elif wrong is None and not isinstance(error, TypeError):
        wrong = options_of(function).wrong(args, kwargs, path)
    elif wrong is None and not written_in_python(path) and overloads_of(function, path) is None:
        wrong = misfit(function, path, args, kwargs, "(): argument" in str(error))
    if isinstance(wrong, RefusedOutput):
        wrong = refusal_of_out(function, path, args, kwargs, wrong)
    if wrong is None:
        raise error
    raise wrong from error


def _called(
    call: Callable[..., object], function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Return the answer to a call that nothing overrides: of a class or a mode that answers operations, or what it computes."""
    if Dispatching.active:
        answer = Dispatching.answer(call, function, args, kwargs)
        if answer is not UNANSWERED:
            return answer
    path = PATHS.get(call, "")
    overloads = overloads_of(function, path)
    try:
        if overloads is not None:
            overloads.require(args, kwargs)
        options_of(function).require(args, kwargs, path)
        return function(*args, **kwargs)
    except Exception as error:
        return _otherwise(function, path, args, kwargs, error)


def _ask(call: Any, found: Sequence[Any], args: Any, kwargs: Any) -> Any:
    """Return the first answer of the innermost mode and the overriding arguments.

    Raises:
        TypeError: nobody answered.
    """
    path = PATHS.get(call, "")
    if path.startswith("torch.nn.functional.") and written_in_python(path):
        args, kwargs = spelled_out(call, args, kwargs)
    try:
        return first_answer("__torch_function__", _name_of, _state.modes, call, found, args, kwargs)
    except TypeError:
        home, _, name = path.rpartition(".")
        if found and home == "torch.Tensor" and name.startswith("__") and name.strip("_") in _BINARY:
            # The other operand's class may know what to do.
            return NotImplemented
        raise


def _name_of(call: Callable[..., object]) -> str:
    return resolve_name(call) or getattr(call, "__name__", str(call))


def default_handler(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Call a function and return its tensors in a subclass, as ``torch.Tensor.__torch_function__``."""
    if not all(issubclass(cls, each) for each in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result if func in get_default_nowrap_functions() else _converted(result, cls)


def _converted(result: Any, cls: type) -> Any:
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else Tensor.as_subclass(result, cls)
    if isinstance(result, list | tuple):
        parts = [_converted(each, cls) for each in result]
        kind: Any = type(result)
        return kind(*parts) if hasattr(result, "_fields") else kind(parts)
    return result


# For programs


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether a call with these arguments goes to one of them or to a mode."""
    if _state.off:
        return False
    if _state.modes or _state.subclasses_off:
        return bool(_state.modes)
    # Of tensors that hold others some are PyTorch's own kind, to which its functions are told apart further down.
    return any(
        getattr(type(each), "overrides_in_pytorch", True) for each in _overloaded(relevant_args, [], nested=False)
    )


def has_torch_function_unary(relevant_arg: Any) -> bool:
    """Return whether a call with this argument goes to it or to a mode."""
    return has_torch_function((relevant_arg,))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """Return whether a call with these arguments goes to one of them or to a mode."""
    return has_torch_function(relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Return the answer of the mode or of the argument that a call goes to.

    Raises:
        TypeError: all of them returned ``NotImplemented``.
    """
    return _ask(public_api, _overloaded(relevant_args, [], plain=True, nested=False), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a function overridable; ``dispatcher`` returns the arguments that may override."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Return whether an object is a tensor or takes the place of one."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether an overridable function is a method or the reading of a property of tensors."""
    return PATHS.get(func, "").startswith("torch.Tensor.") or getattr(func, "__name__", "") == "__get__"


def resolve_name(f: Any) -> str | None:
    """Return where a function is found, such as ``torch.Tensor.add``; None if it is not overridable."""
    found = PATHS.get(f)
    if found is None:
        accessor = getattr(f, "__name__", "")
        if accessor in ("__get__", "__set__", "__delete__"):
            owner = f.__self__
            name = next((each for each in dir(Tensor) if getattr(Tensor, each, None) is owner), None)
            return None if name is None else f"torch.Tensor.{name}.{accessor}"
    return found


def get_default_nowrap_functions() -> set[Any]:
    """Return the functions whose results the default handler leaves in the class they have."""
    return {vars(Tensor)["_base"].__get__, vars(Tensor)["grad"].__get__, vars(Tensor)["_grad"].__get__}
