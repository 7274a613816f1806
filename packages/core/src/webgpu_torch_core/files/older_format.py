"""Files of ``torch.save`` before PyTorch 1.6, and of ``_use_new_zipfile_serialization=False``.

Pickles follow one another: a magic number, a version, what machine wrote the file, the object, and the storages' names in order; then
each storage's count of elements, in eight bytes, and its bytes. The object's pickle names the storages' types, which is found out
without running it. Source: PyTorch's ``torch/serialization.py``.
"""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Iterator, Sequence
from typing import Any

from webgpu_torch_core.files.host_tensors import STORAGE_DTYPES, HostStorage, MemoryFile, brief
from webgpu_torch_core.files.pickle_machine import ArchiveError, CheckpointError, EndOfFileError, Global, PickleMachine
from webgpu_torch_core.ir.dtypes import BY_NAME

#: the first pickle, without the byte that says its protocol
_MAGIC = bytes.fromhex("8a0a6cfc9c46f9206aa850192e")
_MAGIC_NUMBER = int.from_bytes(_MAGIC[2:12], "little")
_VERSION = 1001


def is_older(data: memoryview) -> bool:
    """Return whether a file begins as the older ones do."""
    return bytes(data[:1]) == b"\x80" and bytes(data[2 : 2 + len(_MAGIC)]) == _MAGIC


def begins_older(data: memoryview) -> bool:
    """Return whether a file ends where the older ones still say what they are, as an empty file does."""
    return len(data) < 2 + len(_MAGIC) and b"\x80".startswith(data[:1]) and _MAGIC.startswith(data[2:])


class _Nothing:
    """What plain pickles build: nothing but plain values."""

    def persistent(self, reference: object) -> object:
        raise CheckpointError(f"expected plain values, got a reference to {brief(reference)}")

    def call(self, function: Global, arguments: tuple[object, ...]) -> object:
        raise CheckpointError(f"expected plain values, got a call of {function.path} with {brief(arguments)}")


def open_older(data: memoryview, label: str) -> tuple[memoryview, dict[str, memoryview], bool, int]:
    """Return the object's pickle, the storages' bytes by their names, whether these are big-endian, and where the file ends.

    Raises:
        UnpicklingError: the file is damaged.
    """
    start, parts = 2 + len(_MAGIC), list[memoryview]()
    try:
        for _ in range(4):
            end = start + _length(data[start:])
            parts.append(data[start:end])
            start = end
        version, machine, keys = (PickleMachine(parts[each], _Nothing()).run() for each in (0, 1, 3))
        if version != _VERSION or not isinstance(machine, dict) or not isinstance(keys, list):
            raise ArchiveError(f"expected a file of version {_VERSION}, found {brief(version)}")
        sizes = dict(_element_sizes(parts[2]))
        entries: dict[str, memoryview] = {}
        for key in keys:
            size = sizes.get(key) if isinstance(key, str) else None
            if size is None or key in entries:
                raise ArchiveError(f"storage {brief(key)} is not one that the object refers to")
            end = start + 8 + int.from_bytes(data[start : start + 8], "little") * size
            if end > len(data):
                raise ArchiveError(f"truncated: storage {brief(key)} ends at byte {end} of {len(data)}")
            entries[key] = data[start + 8 : end]
            start = end
    except CheckpointError as error:
        raise type(error)(f"{label}: {error}") from None
    return parts[2], entries, machine.get("little_endian") is False, start


def _operations(data: memoryview) -> Iterator[tuple[pickletools.OpcodeInfo, object, int]]:
    try:
        found: Any = pickletools.genops(MemoryFile(data))  # pyright: ignore[reportArgumentType]
        yield from found
    # An escape that Python does not know is a warning, which programs may have raised.
    except (ValueError, EOFError, OverflowError, DeprecationWarning) as error:
        kind = EndOfFileError if "exhausted" in str(error) else CheckpointError
        raise kind(f"malformed pickle: {error}") from None


def _length(data: memoryview) -> int:
    """Return how long the pickle is that bytes begin with."""
    return 1 + max(position for *_, position in _operations(data))


def _element_sizes(data: memoryview) -> Iterator[tuple[str, int]]:
    """Return the names of the storages that a pickle refers to, and the sizes of their elements, without running it."""
    stack, memo = list[object](), dict[object, object]()
    try:
        for code, argument, _ in _operations(data):
            if code.name == "BINPERSID":
                match stack[-1]:
                    case ("storage", (_, str(kind)), str(key), *_) if kind in STORAGE_DTYPES:
                        yield key, BY_NAME[STORAGE_DTYPES[kind]].itemsize
                    case _:
                        pass
            _step(code, argument, stack, memo)
    except (IndexError, ValueError) as error:
        raise CheckpointError(f"malformed pickle: {error}") from None


def _step(code: pickletools.OpcodeInfo, argument: object, stack: list[object], memo: dict[object, object]) -> None:
    """Do to a stack what an instruction does, where only texts, names and tuples of them count."""
    name = code.name
    if name in ("BINGET", "LONG_BINGET"):
        stack.append(memo.get(argument))
    elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
        memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
    elif name == "GLOBAL":
        stack.append(tuple(str(argument).split(" ", 1)))
    elif name == "STACK_GLOBAL":
        stack[-2:] = [tuple(stack[-2:])]
    elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
        count = int(name[-1])
        stack[-count:] = [tuple(stack[-count:])]
    elif name == "MARK":
        stack.append(pickletools.markobject)
    else:
        taken, items = [each for each in code.stack_before if each is not pickletools.stackslice], list[object]()
        if pickletools.markobject in taken:
            taken.remove(pickletools.markobject)
            while stack[-1] is not pickletools.markobject:
                items.append(stack.pop())
            stack.pop()
        del stack[len(stack) - len(taken) :]
        result = tuple(reversed(items)) if name == "TUPLE" else argument if isinstance(argument, str) else None
        stack += [result] * len(code.stack_after)


def older_parts(data: bytes, storages: Sequence[HostStorage]) -> Iterator[bytes | memoryview]:
    """Return the pieces of such a file: of an object's pickle, and the storages that it refers to by number."""
    machine = {"protocol_version": _VERSION, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    for value in (_MAGIC_NUMBER, _VERSION, machine):
        yield pickle.dumps(value, 2)
    yield data
    named = sorted((str(number), each) for number, each in enumerate(storages))
    yield pickle.dumps([name for name, _ in named], 2)
    for _, each in named:
        size = each.dtype.itemsize if each.is_typed else 1
        yield (len(each.data) // size).to_bytes(8, "little")
        yield each.data
