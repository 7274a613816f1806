"""Storages as rows of elements and as bytes: what PyTorch's answer, and what is written into them reaches the tensors."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = [
    "Double",
    "Float",
    "Half",
    "Long",
    "Int",
    "Short",
    "Char",
    "Byte",
    "Bool",
    "BFloat16",
    "ComplexDouble",
    "ComplexFloat",
]
TYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outcome(run: Callable[[], Any]) -> object:
    try:
        return repr(run())
    except (RuntimeError, TypeError, NotImplementedError, IndexError) as error:
        return type(error).__name__


CHANGES: list[Callable[[Any, Any], Any]] = [
    lambda library, s: s.fill_(1),
    lambda library, s: s.__setitem__(0, 1),
    lambda library, s: s.__setitem__(slice(1, 3), 1),
    lambda library, s: s.copy_(library.TypedStorage([0, 1, 1], dtype=s.dtype)),
    lambda library, s: s.resize_(5),
    lambda library, s: s.__setitem__("a", 1),
]
QUESTIONS: list[Callable[[Any, Any], Any]] = [
    lambda library, s: s.tolist()[:3],
    lambda library, s: (s.size(), len(s), s.nbytes(), s.element_size()),
    lambda library, s: s[0],
    lambda library, s: s[0:1],
    lambda library, s: s.clone().tolist()[:3],
    lambda library, s: s.type(),
    lambda library, s: s.pickle_storage_type(),
    lambda library, s: copy.deepcopy(s).tolist()[:3],
    lambda library, s: s.untyped().tolist()[: 3 * s.element_size()],
    lambda library, s: pickle.loads(pickle.dumps(s)).tolist()[:3],
    lambda library, s: library.tensor(s, dtype=s.dtype).tolist()[:3],
    lambda library, s: library.tensor(s.untyped(), dtype=s.dtype).tolist()[:3],
    lambda library, s: library.tensor([], dtype=library.float32).set_(s).tolist()[:3],
    lambda library, s: isinstance(s, library.FloatStorage),
    lambda library, s: library.is_storage(s),
    lambda library, s: s.cpu().tolist()[:3],
]
CASTS = ["double", "float", "long", "int", "char", "half", "bfloat16", "complex_float"]


@settings(deadline=None)
@given(st.sampled_from(TYPES), st.sampled_from(CHANGES), st.sampled_from(QUESTIONS), st.booleans())
def test_rows_of_elements(kind: str, change: Any, question: Any, of_tensor: bool) -> None:
    def run(library: Any) -> Any:
        own = getattr(library, kind)
        tensor = library.tensor([0, 1, 0], dtype=own)
        storage = tensor.storage() if of_tensor else library.TypedStorage([0, 1, 0], dtype=own)
        found = outcome(lambda: change(library, storage) and None), outcome(lambda: question(library, storage))
        return found, tensor.tolist()

    assert run(ours) == run(torch)


@settings(deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(CASTS))
def test_older_names(name: str, cast: str) -> None:
    def run(library: Any) -> Any:
        kind = getattr(library, f"{name}Storage")
        made = kind([1, 0])
        converted = getattr(made, cast)()
        other = [each for each in NAMES if isinstance(made, getattr(library, f"{each}Storage"))]
        return len(kind()), len(kind(3)), made.tolist(), converted.tolist(), str(converted.dtype), other

    assert repr(run(ours)) == repr(run(torch))


BAD: list[Callable[[Any], Any]] = [
    lambda library: library.FloatStorage(1, 2),
    lambda library: library.FloatStorage(dtype=library.float32),
    lambda library: library.FloatStorage({}),
    lambda library: library.TypedStorage(0, 0),
    lambda library: library.TypedStorage(0, wrap_storage=library.UntypedStorage(4), dtype=library.float32),
    lambda library: library.TypedStorage(wrap_storage=library.UntypedStorage(4)),
    lambda library: library.TypedStorage(wrap_storage=library.UntypedStorage(4), dtype=0),
    lambda library: library.TypedStorage(wrap_storage=library.UntypedStorage(4), dtype=library.int8, device="cpu"),
    lambda library: library.TypedStorage(wrap_storage=library.FloatStorage(1), dtype=library.int8),
    lambda library: library.TypedStorage(library.tensor([]), dtype=library.float32),
    lambda library: library.TypedStorage([1], device="meta")[0],
    lambda library: library.TypedStorage([1], device="meta").tolist(),
    lambda library: library.TypedStorage([1], device="meta").cpu(),
    lambda library: library.TypedStorage([1]).copy_(library.TypedStorage([1], device="meta")),
    lambda library: library.UntypedStorage(4, device="meta")[0],
    lambda library: library.UntypedStorage([1], device="meta").tolist(),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_mistakes(number: int) -> None:
    found = outcome(lambda: BAD[number](ours))
    assert found in ("RuntimeError", "TypeError", "NotImplementedError")
    assert found == outcome(lambda: BAD[number](torch))


@settings(deadline=None)
@given(st.lists(st.integers(0, 255), min_size=1, max_size=6), st.integers(0, 255))
def test_bytes(values: list[int], value: int) -> None:
    def run(library: Any) -> Any:
        storage = library.UntypedStorage(values)
        other = storage.clone()
        storage[0] = value
        storage.resize_(len(values) + 2)
        other.fill_(value)
        third = library.UntypedStorage(len(values)).copy_(library.UntypedStorage(values))
        return storage.tolist()[: len(values)], storage.nbytes(), other.tolist(), third.tolist(), third.cpu() is third

    assert run(ours) == run(torch)


def test_memory_is_one() -> None:
    tensor = ours.arange(4.0)
    tensor.storage()[1] = 9
    tensor.untyped_storage()[0:4] = 0
    tensor[2:].storage().fill_(5)
    assert tensor.tolist() == [5.0] * 4
    assert tensor.storage().data_ptr() == tensor.untyped_storage().data_ptr() == tensor.data_ptr()
    storage = tensor.untyped_storage()
    storage.note = 1
    assert weakref.ref(storage)() is storage


@pytest.mark.parametrize("weights_only", [True, False])
def test_files(weights_only: bool) -> None:
    for writer, reader in ((ours, ours), (ours, torch), (torch, ours)):
        tensor = writer.arange(3.0)
        stream = io.BytesIO()
        writer.save([tensor, tensor.storage(), writer.UntypedStorage([1, 2]), writer.LongStorage([5]), tensor], stream)
        stream.seek(0)
        found = reader.load(stream, weights_only=weights_only)
        assert [each.tolist() for each in found] == [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [1, 2], [5], [0.0, 1.0, 2.0]]
        assert isinstance(found[1], reader.FloatStorage)
        # PyTorch reads bytes as a row of them, too.
        assert isinstance(found[2], reader.ByteStorage)
        found[1][0] = 9
        assert found[0][0] == 9
        assert found[0] is found[4]


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_texts(size: int, device: str) -> None:
    def texts(library: Any) -> list[str]:
        made = [
            library.ones(size, dtype=getattr(library, kind), device=device) for kind in ("float32", "int64", "bool")
        ]
        return [repr(each.untyped_storage()) for each in made] + [repr(each.storage()) for each in made]

    assert texts(ours) == texts(torch)
