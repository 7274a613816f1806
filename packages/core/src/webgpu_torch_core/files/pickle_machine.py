"""An interpreter for the pickles that hold tensors: a stack machine over bytes that can build containers only, and what
the program lets files name (:mod:`~.permissions`).

Its memory is bounded by the length of the pickle: every size is checked against the bytes that are there.
Source of the opcodes: CPython's ``pickletools``.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, Protocol

from webgpu_torch_core.files.host_tensors import brief
from webgpu_torch_core.files.permissions import BLOCKED_MODULES, by_path, give_state, is_added
from webgpu_torch_core.files.pickle_objects import REBUILDERS
from webgpu_torch_core.ir.dtypes import ALL_DTYPES, QUANTIZED, dtype
from webgpu_torch_core.tensors.quantization_schemes import SCHEMES


class CheckpointError(UnpicklingError, ValueError):
    """A file of ``torch.save`` is damaged, or holds what is not read: PyTorch's exception, and a ValueError as any bad file."""


class InvalidTensorError(CheckpointError, RuntimeError):
    """A file of ``torch.save`` describes a tensor that cannot be: also the RuntimeError that making it raises."""


class ArchiveError(CheckpointError, RuntimeError):
    """The archive around a pickle is damaged, or lacks what the pickle names: also PyTorch's RuntimeError."""


class EndOfFileError(CheckpointError, EOFError):
    """A file ends within a pickle, or is empty: also Python's EOFError."""


#: what files name that stands for itself: element types, and how integers stand for numbers
PLAIN: dict[str, object] = {f"torch.{each.name}": each for each in (*ALL_DTYPES, *QUANTIZED)}
PLAIN |= {repr(each): each for each in SCHEMES}
# What a name may be without being called: a storage's type, and the types of a tensor's subclass.
_TYPE_MODULES = ("torch", "torch.storage")
_TYPES = ("torch.Tensor", "torch.nn.parameter.Parameter")
_CALLABLES = (
    "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3", "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state", "torch._tensor._rebuild_from_type_v2", "torch.Size", "torch.device",
    "collections.OrderedDict", "collections.Counter", "builtins.set", "builtins.complex", "builtins.bytes", "_codecs.encode",
)  # fmt: skip


class Global:
    """A name that a pickle mentions, and nothing more: it is never imported."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    @property
    def path(self) -> str:
        """The dotted name."""
        return f"{self.module}.{self.name}"

    def __repr__(self) -> str:
        return f"<{self.path}>"


def is_known(module: str, name: str) -> bool:
    """Return whether every file may mention a name."""
    path = f"{module}.{name}"
    if path in PLAIN or path in _CALLABLES or path in _TYPES or path in REBUILDERS:
        return True
    return module in _TYPE_MODULES and name.endswith("Storage")


class Builder(Protocol):
    """What the machine asks for values it does not know."""

    def persistent(self, reference: object) -> object:
        """Return the value of a persistent reference."""

    def call(self, function: Global, arguments: tuple[Any, ...]) -> object:
        """Return the value of a call."""


_SCALARS = (str, int, float, bytes, type(None), complex)


def check_key(key: object) -> object:
    """Return ``key`` if it is a plain value, or a tuple of them; anything else cannot be a key or a set's member."""
    if isinstance(key, (*_SCALARS, dtype)) or (type(key) is tuple and all(isinstance(each, _SCALARS) for each in key)):
        return key
    if is_added(type(key)):
        return key
    raise CheckpointError(f"keys are plain values or tuples of them, got a {type(key).__name__}")


class PickleMachine:
    """Runs one pickle: ``PickleMachine(data, builder).run()``."""

    def __init__(self, data: object, builder: Builder, encoding: str = "utf-8") -> None:
        self._encoding = encoding
        self._data = memoryview(data)  # type: ignore[arg-type]
        self._builder = builder
        self._position = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}
        # Calls copy their arguments; a pickle that has one long list copied again and again is an attack on memory.
        self._copies_left = 16 * len(self._data) + (1 << 20)

    def run(self) -> object:
        """Return the pickled object; raises UnpicklingError for anything malformed or refused."""
        while True:
            code = self._take(1)[0]
            if code == 0x2E:  # STOP
                return self._pop()
            operation = _OPERATIONS.get(code)
            if operation is None:
                raise CheckpointError(
                    f"Weights only load refused pickle opcode {bytes((code,))!r} at byte {self._position - 1}"
                )
            try:
                operation(self)
            except CheckpointError as error:
                # What was read last before a value is the key it has in a dictionary.
                key = next((each for each in reversed(self._stack) if type(each) is str), None)
                raise type(error)(str(error) if key is None else f"{error} (read after {brief(key)})") from None

    def _take(self, count: int) -> bytes:
        end = self._position + count
        if end > len(self._data):
            raise EndOfFileError(
                f"truncated pickle: {count} bytes wanted at byte {self._position} of {len(self._data)}"
            )
        piece = bytes(self._data[self._position : end])
        self._position = end
        return piece

    def _unsigned(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _line(self) -> str:
        end = self._position
        while end < len(self._data) and self._data[end] != 10:
            end += 1
        line = self._take(end - self._position)
        self._take(1)
        return _text(line)

    def _pop(self) -> object:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise CheckpointError(f"malformed pickle: the stack is empty before byte {self._position}")
        return self._stack.pop()

    def _top(self, kind: type | tuple[type, ...], action: str) -> object:
        value = self._pop()
        self._stack.append(value)
        if not isinstance(value, kind):
            raise CheckpointError(f"malformed pickle: cannot {action} a {type(value).__name__}")
        return value

    def _pop_mark(self) -> list[Any]:
        if not self._marks:
            raise CheckpointError(f"malformed pickle: no mark before byte {self._position}")
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _push(self, value: object) -> None:
        self._stack.append(value)

    def _mark(self) -> None:
        self._marks.append(len(self._stack))

    def _find(self, module: str, name: str) -> None:
        module = "builtins" if module == "__builtin__" else module
        value = Global(module, name)
        if value.path in PLAIN:
            self._push(PLAIN[value.path])
        elif is_known(module, name):
            self._push(value)
        elif module in BLOCKED_MODULES:
            raise CheckpointError(f"Weights only load refused '{value.path}': nothing of its module is ever read")
        else:
            allowed = by_path()
            if value.path not in allowed:
                raise CheckpointError(
                    f"Weights only load refused '{value.path}': only tensors, plain values and plain containers are "
                    "read; torch.serialization.add_safe_globals lets files name a class or function that you trust"
                )
            self._push(allowed[value.path])

    def _global(self) -> None:
        module = self._line()
        self._find(module, self._line())

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise CheckpointError(f"malformed pickle: a name is two strings, got {brief(module)} and {brief(name)}")
        self._find(module, name)

    def _reduce(self, make: bool = False) -> None:
        arguments, function = self._pop(), self._pop()
        added = is_added(function)
        if not (isinstance(function, Global) or added) or type(arguments) is not tuple:
            raise CheckpointError(f"malformed pickle: cannot call {brief(function)} with {brief(arguments)}")
        self._spend(arguments)
        if not added:
            self._push(self._builder.call(function, arguments))  # type: ignore[arg-type]
        elif make and isinstance(function, type):
            self._push(function.__new__(function, *arguments))
        else:
            self._push(function(*arguments))  # type: ignore[operator]

    def _spend(self, values: object, depth: int = 3) -> None:
        if isinstance(values, (list, tuple, str, dict)):
            self._copies_left -= len(values)
            if self._copies_left < 0:
                raise CheckpointError("malformed pickle: it copies more than it holds")
            if depth and isinstance(values, tuple):
                for value in values[:16]:
                    self._spend(value, depth - 1)

    def _build(self) -> None:
        state = self._pop()
        target = self._top(object, "give attributes to")
        if is_added(type(target)):
            self._spend(state)
            give_state(target, state)
            return
        # torch.nn.Module.state_dict() hangs its _metadata on the dictionary.
        if type(target) is not OrderedDict or type(state) is not dict or not set(state) <= {"_metadata"}:
            raise CheckpointError(f"Weights only load refused to give attributes to a {type(target).__name__}")
        self._spend(state)
        target.__dict__.update(state)

    def _persistent(self) -> None:
        self._push(self._builder.persistent(self._pop()))

    def _get(self, index: int) -> None:
        if index not in self._memo:
            raise CheckpointError(f"malformed pickle: memo {index} is read before it is written")
        self._push(self._memo[index])

    def _put(self, index: int) -> None:
        self._memo[index] = self._top(object, "remember")

    def _append(self, items: list[Any]) -> None:
        target = self._top(list, "append to")
        target.extend(items)  # type: ignore[attr-defined]

    def _append_one(self) -> None:
        item = self._pop()
        self._append([item])

    def _set_items(self, items: list[Any]) -> None:
        target = self._top(dict, "set items of")
        if len(items) % 2:
            raise CheckpointError("malformed pickle: a dictionary has a key without a value")
        for key, value in zip(items[0::2], items[1::2]):
            target[check_key(key)] = value  # type: ignore[index]

    def _set_one_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _add_items(self) -> None:
        items = self._pop_mark()
        target = self._top(set, "add to")
        target.update(check_key(item) for item in items)  # type: ignore[attr-defined]

    def _tuple(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self._push(tuple(reversed(items)))

    def _older_text(self, length_size: int) -> None:
        # A text of Python 2, whose bytes say nothing of their encoding.
        data = self._take(self._unsigned(length_size))
        self._push(data if self._encoding == "bytes" else _text(data, self._encoding))

    def _float(self) -> None:
        self._push(struct.unpack(">d", self._take(8))[0])

    def _long(self, length_size: int) -> None:
        self._push(int.from_bytes(self._take(self._unsigned(length_size)), "little", signed=True))

    def _protocol(self) -> None:
        version = self._take(1)[0]
        if not 2 <= version <= 5:
            raise CheckpointError(f"pickle protocol {version} is not supported: torch.save writes protocol 2")


def _text(data: bytes, encoding: str = "utf-8") -> str:
    try:
        return data.decode(encoding, "surrogatepass" if encoding == "utf-8" else "strict")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"malformed pickle: text is not {encoding.upper()}: {error}") from None


_OPERATIONS: dict[int, Callable[[PickleMachine], object]] = {
    0x80: PickleMachine._protocol,
    0x95: lambda m: m._take(8),  # FRAME: a hint for readers of streams
    ord("("): PickleMachine._mark,
    ord("0"): lambda m: m._pop(),
    ord("1"): lambda m: m._pop_mark(),
    ord("N"): lambda m: m._push(None),
    0x88: lambda m: m._push(True),
    0x89: lambda m: m._push(False),
    ord("K"): lambda m: m._push(m._unsigned(1)),
    ord("M"): lambda m: m._push(m._unsigned(2)),
    ord("J"): lambda m: m._push(int.from_bytes(m._take(4), "little", signed=True)),
    0x8A: lambda m: m._long(1),
    0x8B: lambda m: m._long(4),
    ord("G"): PickleMachine._float,
    ord("X"): lambda m: m._push(_text(m._take(m._unsigned(4)))),
    0x8C: lambda m: m._push(_text(m._take(m._unsigned(1)))),
    0x8D: lambda m: m._push(_text(m._take(m._unsigned(8)))),
    ord("U"): lambda m: m._older_text(1),
    ord("T"): lambda m: m._older_text(4),
    ord("C"): lambda m: m._push(m._take(m._unsigned(1))),
    ord("B"): lambda m: m._push(m._take(m._unsigned(4))),
    0x8E: lambda m: m._push(m._take(m._unsigned(8))),
    ord("]"): lambda m: m._push([]),
    ord("}"): lambda m: m._push({}),
    ord(")"): lambda m: m._push(()),
    0x8F: lambda m: m._push(set()),
    ord("a"): PickleMachine._append_one,
    ord("e"): lambda m: m._append(m._pop_mark()),
    ord("s"): PickleMachine._set_one_item,
    ord("u"): lambda m: m._set_items(m._pop_mark()),
    0x90: PickleMachine._add_items,
    ord("t"): lambda m: m._push(tuple(m._pop_mark())),
    0x85: lambda m: m._tuple(1),
    0x86: lambda m: m._tuple(2),
    0x87: lambda m: m._tuple(3),
    ord("q"): lambda m: m._put(m._unsigned(1)),
    ord("r"): lambda m: m._put(m._unsigned(4)),
    0x94: lambda m: m._put(len(m._memo)),
    ord("h"): lambda m: m._get(m._unsigned(1)),
    ord("j"): lambda m: m._get(m._unsigned(4)),
    ord("c"): PickleMachine._global,
    0x93: PickleMachine._stack_global,
    ord("R"): PickleMachine._reduce,
    0x81: lambda m: m._reduce(make=True),  # NEWOBJ: of the names we know, calling the class is the same
    ord("b"): PickleMachine._build,
    ord("Q"): PickleMachine._persistent,
}
