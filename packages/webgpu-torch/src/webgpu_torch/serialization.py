"""Files of tensors and what they may name, as ``torch.serialization``."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pickle import UnpicklingError
from typing import Any, TypeAlias

from webgpu_torch_core import UntypedStorage, device
from webgpu_torch_core import load as load
from webgpu_torch_core import save as save
from webgpu_torch_core.files import pickle_format
from webgpu_torch_core.files.permissions import add_safe_globals as add_safe_globals
from webgpu_torch_core.files.permissions import clear_safe_globals as clear_safe_globals
from webgpu_torch_core.files.permissions import get_safe_globals as get_safe_globals
from webgpu_torch_core.files.permissions import safe_globals as safe_globals
from webgpu_torch_core.notices import warn as _warn

from .storage import Storage
from .types import FileLike as FileLike

FILE_LIKE: TypeAlias = FileLike
MAP_LOCATION: TypeAlias = Callable[[Storage, str], Storage] | device | str | dict[str, str] | None
STORAGE: TypeAlias = Storage

DEFAULT_PROTOCOL = 2


class SourceChangeWarning(Warning):
    """The class of a saved module is not what it was; files here hold no source, so nothing warns."""


class LoadEndianness(Enum):
    """An order of bytes."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_endianness: LoadEndianness | None = None


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the order of bytes of files that do not tell theirs; None is the order of PyTorch's own files, little."""
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the order of bytes of files that do not tell theirs.

    Raises:
        TypeError: it is no :class:`LoadEndianness`.
    """
    global _endianness
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    orders = {LoadEndianness.BIG: "big", LoadEndianness.NATIVE: sys.byteorder}
    pickle_format.default_byteorder = orders.get(endianness or LoadEndianness.LITTLE, "little").encode()
    _endianness = endianness


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """Return the functions and classes that a file of ``torch.save`` names and that ``torch.load`` would refuse.

    Args:
        f: a path or an open binary file; nothing of it is run.

    Raises:
        ValueError: it is no file of ``torch.save``.
    """
    try:
        return pickle_format.unknown_globals(f)
    except UnpicklingError as error:
        raise ValueError(f"Expected input to be a checkpoint returned by torch.save: {error}") from None


def location_tag(storage: UntypedStorage) -> str:
    """Return the device of a storage as files name it: ``cpu`` or ``webgpu:0``."""
    return str(storage.device)


def default_restore_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """Return a storage on the device that a file names: the storage itself where it is there already.

    Raises:
        RuntimeError: there is no such device.
    """
    import webgpu_torch_core as torch

    try:
        place = torch.empty(0, device=location, dtype=torch.uint8).device
    except (RuntimeError, ValueError, TypeError) as error:
        raise RuntimeError(
            f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
        ) from error
    if place == storage.device:
        return storage
    return UntypedStorage.of_tensor(storage.as_elements(torch.uint8).to(place))


@contextmanager
def mkdtemp() -> Iterator[str]:
    """Make a folder that goes when the context ends."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as path:
        yield path


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Return whether a module's ``__version__`` is a version or a later one.

    Raises:
        RuntimeError: it cannot be compared, and ``error_if_malformed``; else that is a warning and the answer True.
    """
    parts = module.__version__.split(".")
    try:
        return tuple(type(each)(parts[index]) for index, each in enumerate(req_version_tuple)) >= req_version_tuple
    except (ValueError, IndexError) as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared "
            f"with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        _warn(f"{message}, but continuing assuming that requirement is met")
        return True


class _Records:
    """The records of an archive of ``torch.save``, by their names in it; close it, or use it in a ``with`` block.

    Args:
        name_or_buffer: a path or a binary file.
        mode: ``r`` to read, ``w`` to write.
    """

    def __init__(self, name_or_buffer: FileLike, mode: str) -> None:
        self._archive = zipfile.ZipFile(name_or_buffer, mode)  # type: ignore[call-overload]
        names = self._archive.namelist()
        path = os.fspath(name_or_buffer) if isinstance(name_or_buffer, os.PathLike) else name_or_buffer
        stem = os.path.splitext(os.path.basename(path))[0] if isinstance(path, str) else "archive"
        #: the folder that all records are in
        self.archive_name = names[0].partition("/")[0] if names else stem

    def __enter__(self) -> _Records:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def get_all_records(self) -> list[str]:
        """Return the names of all records."""
        return [each.removeprefix(f"{self.archive_name}/") for each in self._archive.namelist()]

    def has_record(self, name: str) -> bool:
        """Return whether there is a record of a name."""
        return name in self.get_all_records()

    def get_record(self, name: str) -> bytes:
        """Return a record.

        Raises:
            RuntimeError: there is none of the name.
        """
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        return self._archive.read(f"{self.archive_name}/{name}")

    def get_record_offset(self, name: str) -> int:
        """Return where in the file a record begins."""
        start = self._archive.getinfo(f"{self.archive_name}/{name}").header_offset
        file: Any = self._archive.fp
        before = file.tell()
        file.seek(start + 26)
        lengths = file.read(4)
        file.seek(before)
        return start + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")

    def write_record(self, name: str, data: bytes | bytearray | str, nbytes: int) -> None:
        """Write the first bytes of some data as a record."""
        content = data.encode() if isinstance(data, str) else data
        self._archive.writestr(f"{self.archive_name}/{name}", bytes(content[:nbytes]))

    def write_record_metadata(self, name: str, nbytes: int) -> None:
        """Write a record of so many bytes, all of them 0: somebody will write over them."""
        self._archive.writestr(f"{self.archive_name}/{name}", bytes(nbytes))

    def write_end_of_file(self) -> None:
        """Write what ends an archive."""
        self._archive.close()


def _open_zipfile_reader(name_or_buffer: FileLike) -> _Records:
    """Return the records of an archive."""
    return _Records(name_or_buffer, "r")


def _open_zipfile_writer(name_or_buffer: FileLike) -> _Records:
    """Return an empty archive to write records into."""
    return _Records(name_or_buffer, "w")


@contextmanager
def _open_file_like(name_or_buffer: FileLike, mode: str) -> Iterator[FileLike]:
    """Open a path, or use a file that is open and stays so."""
    if _is_path(name_or_buffer):
        with open(os.fspath(name_or_buffer), mode) as file:  # type: ignore[arg-type]
            yield file
    else:
        yield name_or_buffer
        if "w" in mode:
            name_or_buffer.flush()  # type: ignore[union-attr]


def _is_zipfile(f: io.IOBase) -> bool:
    """Return whether what follows in a file is an archive; where the file is read from stays."""
    start = f.tell()
    first: bytes = f.read(4)  # type: ignore[attr-defined]
    f.seek(start)
    return first == b"PK\x03\x04"


def _is_path(name_or_buffer: object) -> bool:
    """Return whether a thing names a file."""
    return isinstance(name_or_buffer, str | os.PathLike)
