"""Custom operations by name, as ``torch.library``: Python functions, with a gradient if one is registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from webgpu_torch_core import Tensor, is_autocast_enabled
from webgpu_torch_core.autograd import Function
from webgpu_torch_core.record.grad_mode import recording as _recording

from ._ops import OpOverload as _OpOverload
from ._ops import OpOverloadPacket as _OpOverloadPacket
from ._ops.binding import bind as _bind
from ._ops.closed import apply as _apply
from ._ops.closed import check_memory as _check_memory
from ._ops.closed import formula as _formula
from ._ops.closed import needs_gradient as _needs_gradient
from ._ops.implementations import operation as _operation
from ._ops.implementations import own_named as _own_named
from ._ops.inferring import infer_schema as infer_schema
from ._ops.schemas import FunctionSchema as _FunctionSchema
from ._parts import part as _part

#: Keys under which PyTorch looks for an operation's function, whatever the device of its arguments.
_COMPOSED = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional")


#: namespaces whose operations are another distribution's, loaded when one is first asked for: its module, and the extra it is in
_BROUGHT = {"quantized": ("webgpu_torch_tools._quantized.operations", "tools")}
#: namespaces whose operations are functions of this library -> what finds the operation of a name
_FUNCTIONS = {"aten": _operation, "webgpu_torch": _own_named}


class CustomOpDef:
    """An operation made by :func:`custom_op` or in a :class:`Library`; call it as the function.

    Args:
        name: ``namespace::name``.
        function: what computes it on every device, if that is known yet.
        schemas: what it takes and returns; none: its calls are not checked.
        apart: whether its function is a closed box, whose results share no memory with arguments and have the gradient that
            is registered, or none, as PyTorch has it for :func:`custom_op`.
    """

    def __init__(
        self, name: str, function: Callable[..., object] | None = None, schemas: Sequence[_FunctionSchema] = (), apart: bool = False
    ) -> None:  # fmt: skip
        namespace, _, self.__name__ = name.rpartition("::")
        self.name = self._qualname = name
        self._init_fn = function
        self._apart = apart
        self._kernels: dict[str, Callable[..., object]] = (
            {} if function is None else {"CompositeExplicitAutograd": function}
        )
        self._fake: Callable[..., object] | None = None
        self._under_autocast: dict[str, Callable[..., object]] = {}
        #: what takes the place of recording gradients, and what records them
        self._under_autograd: Callable[..., object] | None = None
        self._gradient: type[Function] | None = None
        self._schemas = tuple(schemas)
        self._packet = _OpOverloadPacket(self.__name__, self._call, namespace, schemas)
        if apart:
            self._gradient = _formula(self._opoverload, None, None)

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._packet(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.name})>"

    @property
    def _opoverload(self) -> _OpOverload:
        return self._packet.default

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        kind = _device_type((*args, *kwargs.values()))
        cast = self._under_autocast.get("CPU" if kind == "cpu" else "CUDA")
        if cast is not None and is_autocast_enabled(kind):
            return cast(*args, **kwargs)
        # Overloads of one name share a function, which tells them apart.
        values, named = _bind(self._schemas[0], args, kwargs) if len(self._schemas) == 1 else (args, kwargs)
        if self._under_autograd is not None:
            return self._under_autograd(*values, **named)
        if self._gradient is not None and _recording.enabled and _needs_gradient(values):
            return _apply(self._gradient, self._computed, values, named)
        return self._computed(*values, **named)

    def _computed(self, *args: Any, **kwargs: Any) -> Any:
        kind = _device_type((*args, *kwargs.values()))
        if kind == "meta" and "META" not in self._kernels:
            if self._fake is not None:
                return self._fake(*args, **kwargs)
            if self._apart:
                raise RuntimeError(
                    f"There was no fake impl registered for {self!r}. This is necessary for torch.compile/export/fx tracing to work. "
                    f"Please use `{getattr(self._init_fn, '__name__', self.__name__)}.register_fake` to add an fake impl."
                )
        result = self._kernel(kind)(*args, **kwargs)
        if self._apart:
            _check_memory(self.__name__, (args, kwargs), result)
        return result

    def _kernel(self, kind: str) -> Callable[..., object]:
        """Return the function for a type of device: its own, one for all, or what there is.

        Raises:
            NotImplementedError: nothing was registered.
        """
        for key in (kind.upper(), *_COMPOSED, *reversed(self._kernels)):
            if key in self._kernels:
                return self._kernels[key]
        raise NotImplementedError(
            f"{self.name} has no function yet: register one with torch.library.impl or register_kernel"
        )

    def register_fake(self, func: Callable[..., object], /) -> Callable[..., object]:
        """Set what tells the shapes and types of results: it is called for tensors on the device ``meta``."""
        self._fake = func
        return func

    def register_kernel(self, device_types: object, func: Callable[..., object] | None = None, /) -> Any:
        """Set the function for some types of device, or for all of them (None)."""
        kinds = list(device_types) if isinstance(device_types, (list, tuple, set)) else [device_types]
        keys = _COMPOSED[:1] if device_types is None else [str(each).upper() for each in kinds]

        def keep(kernel: Callable[..., object]) -> Callable[..., object]:
            for key in keys:
                self._kernels.pop(key, None)
                self._kernels[key] = kernel
            return kernel

        return keep if func is None else keep(func)

    def register_under(self, key: str, func: Callable[..., object]) -> None:
        """Set the function under one of PyTorch's dispatch keys, such as ``CPU``, ``Autograd`` or ``AutocastCPU``."""
        if key.startswith("Autocast"):
            self._under_autocast[key.removeprefix("Autocast")] = func
        elif key.startswith("Autograd"):
            self._under_autograd = func
        elif key == "Meta":
            self._fake = func
        else:
            self._kernels.pop(key, None)
            self._kernels[key] = func

    def register_autograd(
        self, backward: Callable[..., object], /, *, setup_context: Callable[..., object] | None = None
    ) -> None:
        """Register the gradient: ``setup_context(ctx, inputs, output)`` saves, ``backward(ctx, *grads)`` computes.

        Where the operation has arguments that are only given by name, ``setup_context`` has ``keyword_only_inputs``, too.
        """
        self._gradient = _formula(self._opoverload, backward, setup_context)


def _device_type(values: Sequence[object]) -> str:
    """Return the type of device of the first tensor among arguments and in their lists; without one, ``cpu``."""
    for each in values:
        for inner in each if isinstance(each, (list, tuple)) else (each,):
            if isinstance(inner, Tensor):
                return inner.device.type
    return "cpu"


_operations: dict[str, CustomOpDef] = {}


def _find(op: str | CustomOpDef | _OpOverload) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if isinstance(op, _OpOverload):
        op = op.overloadpacket._qualified_op_name
    if op not in _operations:
        raise RuntimeError(f"operator {op} does not exist: define it with torch.library.custom_op first")
    return _operations[op]


def custom_op(
    name: str,
    fn: Callable[..., object] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: object = None,
    schema: str | None = None,
    tags: object = None,
) -> Any:
    """Make a function an operation ``namespace::name``, found under ``torch.ops.namespace.name``; also a decorator.

    Args:
        name: the operation's name.
        fn: the function; its annotations tell what the operation takes and returns.
        mutates_args: names of the arguments that it writes into, or ``"unknown"``.
        device_types: types of device that it is for, None: all.
        schema: what the operation takes and returns, where the annotations do not tell.
        tags: accepted, for what compiles operations.

    Raises:
        ValueError: the name has no namespace, or the annotations make no schema.
    """
    _checked(name)

    def make(function: Callable[..., object]) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        _operations[name] = made = CustomOpDef(name, function, _schemas(name, text), apart=True)
        if device_types is not None:
            made.register_kernel(device_types, function)
        return made

    return make if fn is None else make(fn)


def _checked(name: str) -> None:
    if name.count("::") != 1:
        raise ValueError(f"an operation's name should be 'namespace::name', got {name!r}")


def _schemas(name: str, text: str) -> tuple[_FunctionSchema, ...]:
    """Return the schema of an operation from a text that need not name it; none of an empty one."""
    namespace, _, own = name.partition("::")
    if "->" not in text:
        return ()
    head, bracket, rest = text.strip().partition("(")
    return (_FunctionSchema(f"{head.rpartition('::')[2] or own}{bracket}{rest}", namespace),)


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: object = ()) -> None:
    """Name an operation ``namespace::name``, whose function is registered later.

    Raises:
        ValueError: the name has no namespace.
    """
    _checked(qualname)
    known = _operations[qualname]._schemas if qualname in _operations else ()
    found = tuple(each for each in _schemas(qualname, schema) if str(each) not in map(str, known))
    if qualname not in _operations or (known and found):
        _operations[qualname] = CustomOpDef(qualname, schemas=(*known, *found))


def impl(qualname: str, types: object, func: Callable[..., object] | None = None, *, lib: Library | None = None) -> Any:
    """Register an operation's function for types of device (``"default"``: all); also a decorator."""
    return _find(qualname).register_kernel(None if types in ("default", ("default",)) else types, func)


class Library:
    """Operations of one namespace, defined and given functions by name.

    Args:
        ns: the namespace, ``torch.ops.<ns>``.
        kind: ``"DEF"``, ``"FRAGMENT"`` or ``"IMPL"``; only the last may not define.
        dispatch_key: under what :meth:`impl` registers where it is not told.

    Raises:
        ValueError: another kind.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported library kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: object = ()) -> str:
        """Name an operation by its schema ``name(arguments) -> results`` and return the name."""
        if self.kind == "IMPL":
            raise ValueError("a library of kind IMPL defines no operations: make it with kind DEF or FRAGMENT")
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name.partition('.')[0]}", schema)
        return name

    def impl(
        self, op_name: str | CustomOpDef, fn: Callable[..., object], dispatch_key: str = "", *,
        with_keyset: bool = False, allow_override: bool = False,
    ) -> None:  # fmt: skip
        """Register an operation's function under one of PyTorch's dispatch keys."""
        if with_keyset:
            raise NotImplementedError("functions that take a DispatchKeySet are not supported: register one without")
        if isinstance(op_name, str):
            op_name = f"{self.ns}::{op_name.rpartition('::')[2].partition('.')[0]}"
        _find(op_name).register_under(dispatch_key or self.dispatch_key or _COMPOSED[1], fn)


def register_fake(op: str | CustomOpDef, func: Callable[..., object] | None = None, /, **_: object) -> Any:
    """Accept an operation's shape function; also a decorator."""
    found = _find(op)
    return found.register_fake if func is None else found.register_fake(func)


def register_kernel(op: str | CustomOpDef, device_types: object, func: Callable[..., object] | None = None, /) -> Any:
    """Set an operation's function for types of device; also a decorator."""
    return _find(op).register_kernel(device_types, func)


def register_autograd(
    op: str | CustomOpDef,
    backward: Callable[..., object],
    /,
    *,
    setup_context: Callable[..., object] | None = None,
    **_: object,
) -> None:
    """Register an operation's gradient, as :meth:`CustomOpDef.register_autograd`."""
    _find(op).register_autograd(backward, setup_context=setup_context)


class Namespace:
    """A namespace of ``torch.ops``: custom operations, and PyTorch's own under ``aten``, as attributes."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._path in _BROUGHT:
            _part(*_BROUGHT[self._path])
        custom = _operations.get(f"{self._path}::{name}")
        if custom is not None:
            return custom._packet
        found = _FUNCTIONS[self._path](name) if self._path in _FUNCTIONS else None
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self._path}' object has no attribute '{name}'")
        return found


class Operations:
    """``torch.ops``: namespaces of operations as attributes, and the libraries that bring some.

    Attributes:
        kind: the class of the namespaces.
        brought: what loads a library's operations, by the end of its path without the suffix, such as ``torchvision/_C``.
        loaded_libraries: the paths that were loaded.
    """

    def __init__(self) -> None:
        self.kind = Namespace
        self.brought: dict[str, Callable[[], None]] = {}
        self.loaded_libraries: set[str] = set()

    def __getattr__(self, name: str) -> Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        made = self.__dict__[name] = self.kind(name)
        return made

    def load_library(self, path: str | PathLike[str]) -> None:
        """Register a library's operations, of which this library has a version of its own.

        Raises:
            OSError: it has none: what is compiled against PyTorch cannot be loaded.
        """
        found = Path(path)
        bring = self.brought.get(f"{found.parent.name}/{found.name.partition('.')[0]}")
        if bring is None:
            raise OSError(f"{found} is compiled against PyTorch, which is not here; its operations cannot be loaded")
        if str(path) not in self.loaded_libraries:
            bring()
            self.loaded_libraries.add(str(path))


ops = Operations()
