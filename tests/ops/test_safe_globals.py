"""``torch.serialization``: files may name what the program added, and nothing else, as with PyTorch."""

from __future__ import annotations

import argparse
import collections
import enum
import io
import os
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from ops_oracle import to_torch


class Plain:
    """An object whose state is its attributes."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


class Slotted:
    """An object whose attributes have slots."""

    __slots__ = ("left", "right")

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and (other.left, other.right) == (self.left, self.right)

    __hash__ = None  # type: ignore[assignment]


class Own:
    """An object that takes its state by a method."""

    def __init__(self) -> None:
        self.parts = (1, 2)

    def __getstate__(self) -> Any:
        return {"parts": self.parts}

    def __setstate__(self, state: Any) -> None:
        self.parts = ("set", *state["parts"])


class Colour(enum.Enum):
    """Two values."""

    RED = 1
    BLUE = 2


def made(*arguments: Any) -> Any:
    """Make what :class:`Reduced` was."""
    return Plain(arguments)


class Reduced:
    """An object that names a function to make it."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> Any:
        return self.function, self.arguments


Pair = collections.namedtuple("Pair", "a b")

VALUES: dict[str, tuple[Any, list[Any]]] = {
    "attributes": (Plain([1, "a"]), [Plain]),
    "slots": (Slotted(1, (2, 3)), [Slotted]),
    "namespace": (argparse.Namespace(rate=0.1, names=["a"]), [argparse.Namespace]),
    "enum": ({"colour": Colour.BLUE, Colour.RED: 3}, [Colour]),
    "pair": (Pair(1, [2]), [Pair]),
    "defaultdict": (collections.defaultdict(list), [collections.defaultdict, list]),
    "function": ({"x": Reduced(made, 1, "b")}, [made]),
    "class": ([Plain, 3], [Plain]),
    "nested": (Plain({"inner": Plain(None), "twice": [Colour.RED, Colour.RED]}), [Plain, Colour]),
    "renamed": (Plain(4), [(Plain, f"{Plain.__module__}.Plain")]),
}


@pytest.fixture(autouse=True)
def _nothing_added() -> Iterator[None]:
    yield
    torch.serialization.clear_safe_globals()
    ours.serialization.clear_safe_globals()


def written(value: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def read(library: Any, data: bytes) -> Any:
    return library.load(io.BytesIO(data))


@pytest.mark.parametrize("name", VALUES)
def test_what_was_added_is_read(name: str) -> None:
    value, kinds = VALUES[name]
    data = written(value)
    for library in (torch, ours):
        with pytest.raises(pickle.UnpicklingError):
            read(library, data)
        library.serialization.add_safe_globals(kinds)
    assert read(ours, data) == read(torch, data)
    if not isinstance(value, dict) or name != "function":
        assert read(ours, data) == value


def test_dictionaries_of_other_classes() -> None:
    """PyTorch makes them, but does not fill them."""
    value = collections.defaultdict(list, a=[1])
    with ours.serialization.safe_globals([collections.defaultdict, list]):
        found = read(ours, written(value))
    assert found == value and found["b"] == []


def test_states_go_through_the_objects_method() -> None:
    for library in (torch, ours):
        with library.serialization.safe_globals([Own]):
            assert read(library, written(Own())).parts == ("set", 1, 2)


@pytest.mark.parametrize("values", [np.arange(6.0).reshape(2, 3), np.array(3, np.int64), np.array([True])])
def test_arrays_of_numpy(values: np.ndarray) -> None:
    data = written({"a": values})
    kinds = [np._core.multiarray._reconstruct, np.ndarray, np.dtype, type(values.dtype)]
    for library in (torch, ours):
        with library.serialization.safe_globals(kinds):
            found = read(library, data)["a"]
        assert found.dtype == values.dtype and np.array_equal(found, values)


def test_objects_with_tensors() -> None:
    with ours.serialization.safe_globals([Plain]):
        found = read(ours, written(Plain([torch.arange(3.0), torch.nn.Parameter(torch.ones(2))])))
    assert isinstance(found.value[0], ours.Tensor) and found.value[0].tolist() == [0, 1, 2]
    assert type(found.value[1]) is ours.nn.Parameter and found.value[1].requires_grad


class Marked(torch.Tensor):
    """A tensor of PyTorch's with a class of its own."""


class OurMarked(ours.Tensor):
    """Its counterpart."""


def test_classes_of_tensors() -> None:
    value = torch.arange(4.0).as_subclass(Marked)
    value.note = "kept"
    data = written([value])
    with pytest.raises(pickle.UnpicklingError):
        read(ours, data)
    with ours.serialization.safe_globals([(OurMarked, f"{Marked.__module__}.Marked")]):
        (found,) = read(ours, data)
    assert type(found) is OurMarked and found.note == "kept"
    assert to_torch(found.as_subclass(ours.Tensor)).tolist() == [0, 1, 2, 3]


def test_whole_modules(tmp_path: Path) -> None:
    """A saved module comes back by the names that PyTorch has for its classes."""
    model = ours.nn.Sequential(ours.nn.Linear(3, 2), ours.nn.ReLU())
    ours.save(model, tmp_path / "x.pt")
    kinds = [ours.nn.Sequential, ours.nn.Linear, ours.nn.ReLU]
    names = ours.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt")
    assert {f"torch.nn.modules.{each}" for each in ("container.Sequential", "linear.Linear", "activation.ReLU")} <= {
        *names
    }
    extra = [(set, name) for name in names if name == "builtins.set"]
    with ours.serialization.safe_globals([*kinds, *extra]):
        assert not ours.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt")
        found = ours.load(tmp_path / "x.pt")
    given = ours.ones(1, 3)
    assert ours.equal(found(given), model(given))


def test_nothing_else_is_called(tmp_path: Path) -> None:
    ours.serialization.add_safe_globals([Plain, os.system, (os.system, "posix.system")])
    for function in (os.system, eval, getattr):
        with pytest.raises(pickle.UnpicklingError, match="refused"):
            read(ours, written(Reduced(function, "echo hacked")))
    with pytest.raises(pickle.UnpicklingError, match=r"refused '.*made'.*add_safe_globals"):
        read(ours, written(Plain(Reduced(made, 1))))
    with pytest.raises(pickle.UnpicklingError, match="refused to give attributes to a list"):
        (tmp_path / "x").write_bytes(b"")
        with zipfile.ZipFile(tmp_path / "x", "w") as file:
            file.writestr("x/data.pkl", b"\x80\x02]}b.")
        ours.load(tmp_path / "x")


def test_the_list_of_what_was_added() -> None:
    for library in (torch, ours):
        listed = library.serialization
        assert listed.get_safe_globals() == []
        listed.add_safe_globals([Plain, Colour])
        listed.add_safe_globals([Plain])
        with listed.safe_globals([Own]):
            assert set(listed.get_safe_globals()) == {Plain, Colour, Own}
        assert set(listed.get_safe_globals()) == {Plain, Colour}
        listed.clear_safe_globals()
        assert listed.get_safe_globals() == []
        for wrong, error in (((Plain, "a", "b"), ValueError), ((Plain, 3), TypeError)):
            listed.add_safe_globals([wrong])
            with pytest.raises(error, match="Expected"):
                read(library, written(Plain(1)))
            listed.clear_safe_globals()


@pytest.mark.parametrize("protocol", [2, 4])
def test_unknown_names_are_listed(protocol: int) -> None:
    value = [torch.ones(2), Plain(Colour.RED), Plain(3), collections.OrderedDict(a=1), Reduced(made, 1)]
    data = written(value, pickle_protocol=protocol)
    names = sorted(f"{each.__module__}.{each.__name__}" for each in (Plain, Colour, made))
    for added in ([], [Plain], [Plain, Colour, made]):
        wanted = [each for each in names if each.rpartition(".")[2] not in [one.__name__ for one in added]]
        # PyTorch lists the names of its own protocol only.
        for library in (torch, ours) if protocol == 2 else (ours,):
            with library.serialization.safe_globals(added):
                found = library.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
            assert sorted(found) == wanted
    for library in (torch, ours):
        with pytest.raises(ValueError, match="checkpoint returned by torch.save"):
            library.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"no archive"))


def test_the_order_of_bytes() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(written(torch.tensor([1.0, 2.0])))) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            if name.endswith("/data/0"):
                new.writestr(name, np.array([1, 2], ">f4").tobytes())
            elif not name.endswith("byteorder"):
                new.writestr(name, old.read(name))
    try:
        for library in (torch, ours):
            files = library.serialization
            assert files.get_default_load_endianness() is None
            files.set_default_load_endianness(files.LoadEndianness.BIG)
            assert files.get_default_load_endianness() is files.LoadEndianness.BIG
            assert read(library, stream.getvalue()).tolist() == [1, 2]
            files.set_default_load_endianness(files.LoadEndianness.NATIVE)
            assert read(library, stream.getvalue()).tolist() != [1, 2]
            with pytest.raises(TypeError):
                files.set_default_load_endianness("big")
    finally:
        torch.serialization.set_default_load_endianness(None)
        ours.serialization.set_default_load_endianness(None)


def test_locations(device: str) -> None:
    files = ours.serialization
    data = written({"a": torch.arange(3.0)})
    found = ours.load(io.BytesIO(data), map_location=lambda storage, _: files.default_restore_location(storage, device))
    assert found["a"].device.type == device and found["a"].tolist() == [0, 1, 2]
    storage = found["a"].untyped_storage()
    assert files.location_tag(storage) == str(found["a"].device)
    assert files.default_restore_location(storage, files.location_tag(storage)) is storage
    assert bytes(files.default_restore_location(storage, "cpu").host_bytes()) == np.arange(3, dtype="f4").tobytes()
    with pytest.raises(RuntimeError, match=r"don't know how to restore data location of .* \(tagged with nowhere\)"):
        files.default_restore_location(storage, "nowhere")
    assert isinstance(storage, ours.storage.UntypedStorage)


def test_versions() -> None:
    check = ours.serialization.check_module_version_greater_or_equal
    assert check(argparse.Namespace(__version__="2.10.1", __name__="m"), (2, 9))
    assert not check(argparse.Namespace(__version__="2.1", __name__="m"), (2, 9))
    with pytest.raises(RuntimeError, match="malformed"):
        check(argparse.Namespace(__version__="2", __name__="m"), (2, 9))
    with pytest.warns(UserWarning, match="assuming"):
        assert check(argparse.Namespace(__version__="2", __name__="m"), (2, 9), error_if_malformed=False)
    with ours.serialization.mkdtemp() as path:
        assert Path(path).is_dir()
    assert not Path(path).exists()
