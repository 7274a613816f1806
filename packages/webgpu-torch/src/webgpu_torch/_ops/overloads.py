"""Operations and their overloads, as ``torch._ops``: what ``torch.ops.aten`` holds and ``__torch_dispatch__`` is given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from webgpu_torch_core.dispatch.torch_dispatch import Dispatching, Value

from .matching import match
from .schemas import FunctionSchema, schemas_of

#: what runs an overload that a class or a mode may answer; set where that is known
run: list[Callable[[OpOverload, tuple[Value, ...], dict[str, Value]], Value]] = []


class OpOverload:
    """One overload of an operation; call it to compute.

    Args:
        overloadpacket: the operation.
        overload: the overload's name, ``default`` for the nameless one.
        schema: what it takes, None where that is not known.

    Attributes:
        overloadpacket: the operation.
        namespace: the operation's namespace.
    """

    def __init__(self, overloadpacket: OpOverloadPacket, overload: str, schema: FunctionSchema | None) -> None:
        self.overloadpacket = overloadpacket
        self.namespace = overloadpacket.namespace
        self._overloadname, self._known_schema = overload, schema
        self.__name__ = self.__qualname__ = f"{overloadpacket.__name__}.{overload}"
        self.__module__ = f"torch._ops.{self.namespace}"

    @property
    def _schema(self) -> FunctionSchema:
        """What the overload takes and returns.

        Raises:
            RuntimeError: the operation is not one of PyTorch's.
        """
        if self._known_schema is None:
            raise RuntimeError(f"{self} is an operation of this library: it has no schema")
        return self._known_schema

    @property
    def is_view(self) -> bool:
        """Whether results share the memory of arguments that are not written."""
        schema = self._known_schema
        return schema is not None and not schema.is_mutable and any(each.alias_info for each in schema.returns)

    @property
    def tags(self) -> list[Value]:
        """PyTorch's classification of the operation, of which nothing is recorded here."""
        return []

    def name(self) -> str:
        """Return the full name, such as ``aten::add.Tensor``."""
        suffix = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.overloadpacket._qualified_op_name}{suffix}"

    def compute(self, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        """Return the result for plain tensors, past classes and modes."""
        return self.overloadpacket._function(*args, **kwargs)

    def __call__(self, *args: Value, **kwargs: Value) -> Value:
        return run[0](self, args, kwargs) if Dispatching.active else self.compute(args, kwargs)

    def __deepcopy__(self, memo: object) -> OpOverload:
        return self

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.overloadpacket}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """An operation; its overloads are attributes, and a call goes to the one that its arguments fit.

    Args:
        name: the operation's name.
        function: what computes it, whatever the overload.
        namespace: the namespace of ``torch.ops`` that it is in.
        schemas: what its overloads take, where it is not one of PyTorch's.

    Attributes:
        namespace: that namespace.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., object],
        namespace: str = "aten",
        schemas: Sequence[FunctionSchema] = (),
    ) -> None:
        self.__name__ = self.__qualname__ = name
        self._given = tuple(schemas)
        self.__module__ = f"torch._ops.{namespace}"
        self.namespace, self._function = namespace, function
        self._qualified_op_name = f"{namespace}::{name}"

    @functools.cached_property
    def _known(self) -> dict[str, FunctionSchema]:
        found = schemas_of(self.__name__) if self.namespace == "aten" else self._given
        return {each.overload_name or "default": each for each in found}

    def overloads(self) -> list[str]:
        """Return the names of the overloads."""
        return list(self._known) or ["default"]

    def find(
        self, args: tuple[Value, ...], kwargs: dict[str, Value]
    ) -> tuple[OpOverload, tuple[Value, ...], Value] | None:
        """Return the overload that a call fits, with its arguments as PyTorch hands them on; None if there is none."""
        found = match(tuple(self._known.values()), args, kwargs)
        return None if found is None else (getattr(self, found[0].overload_name or "default"), found[1], found[2])

    def __call__(self, *args: Value, **kwargs: Value) -> Value:
        if Dispatching.active:
            found = self.find(args, kwargs)
            if found is not None:
                return found[0](*found[1], **found[2])
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("_") or (self._known and overload not in self._known and overload != "out"):
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{overload}'")
        # Kept, because programs use operations as keys.
        made = self.__dict__[overload] = OpOverload(self, overload, self._known.get(overload))
        return made

    def __deepcopy__(self, memo: object) -> OpOverloadPacket:
        return self

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"
