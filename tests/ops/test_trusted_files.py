"""Files that a program trusts hold any objects: those written here are read by PyTorch and here, and PyTorch's are read here."""

from __future__ import annotations

import io
import pickle
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st


class Plain:
    """What a program's own class is like."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]


class OwnTensor(ours.Tensor):
    """A subclass with attributes."""


def through(writer: Any, reader: Any, value: Any, **options: Any) -> Any:
    stream = io.BytesIO()
    writer.save(value, stream)
    stream.seek(0)
    return reader.load(stream, **options)


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.fractions().map(Fraction)
)
objects = st.recursive(
    leaves | st.just(PurePosixPath("a/b")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3) | inner.map(Plain)
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(objects)
def test_objects(value: Any) -> None:
    for writer, reader in ((ours, ours), (ours, torch), (torch, ours)):
        assert through(writer, reader, value, weights_only=False) == value


@pytest.mark.parametrize("name", ["Linear", "LSTM", "BatchNorm1d", "CELU"])
def test_modules(name: str) -> None:
    arguments = {"Linear": (2, 3), "LSTM": (2, 3), "BatchNorm1d": (2,), "CELU": ()}[name]
    for writer, reader in ((ours, ours), (ours, torch), (torch, ours)):
        module = getattr(writer.nn, name)(*arguments)
        found = through(writer, reader, module, weights_only=False)
        assert type(found) is getattr(reader.nn, name)
        for (key, one), (other_key, other) in zip(module.state_dict().items(), found.state_dict().items(), strict=True):
            assert (key, one.tolist()) == (other_key, other.tolist())
        x = reader.ones(4, 2)
        result = found(x)
        assert (result[0] if name == "LSTM" else result).shape[0] == 4


def test_modules_are_refused_without_trust() -> None:
    with pytest.raises(pickle.UnpicklingError, match="Linear"):
        through(ours, ours, ours.nn.Linear(2, 3))


def test_attributes_of_tensors() -> None:
    value = ours.ones(2)
    value.note = {"a": [1]}  # type: ignore[attr-defined]
    for reader in (ours, torch):
        for weights_only in (True, False):
            assert through(ours, reader, value, weights_only=weights_only).note == {"a": [1]}
    special = ours.ones(2).as_subclass(OwnTensor)
    special.note = 3  # type: ignore[attr-defined]
    found = through(ours, ours, special, weights_only=False)
    assert type(found) is OwnTensor
    assert (found.note, found.tolist()) == (3, [1.0, 1.0])


def test_another_unpickler() -> None:
    assert through(ours, ours, Plain(1), pickle_module=pickle) == Plain(1)
    for library in (torch, ours):
        with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"):
            through(library, library, 1, pickle_module=pickle, weights_only=True)


def test_files_that_cannot_seek() -> None:
    class Stream:
        def read(self, size: int = -1) -> bytes:
            return b""

    for library in (torch, ours):
        with pytest.raises(AttributeError, match=r"You can only torch\.load from a file that is seekable"):
            library.load(Stream())


def test_names_that_are_nowhere(tmp_path: Any) -> None:
    stream = io.BytesIO()
    ours.save(ours.nn.Linear(1, 1), stream)
    changed = io.BytesIO(
        stream.getvalue().replace(b"torch.nn.modules.linear\nLinear", b"torch.nn.modules.linear\nLinrar")
    )
    with pytest.raises((AttributeError, pickle.UnpicklingError)):
        ours.load(changed, weights_only=False)
