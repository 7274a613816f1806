"""Saving the state of a program's processes in a folder, as ``torch.distributed.checkpoint``: each writes a file of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from ..collectives import barrier
from ..groups import get_rank, get_world_size, is_initialized
from . import state_dict as state_dict

__all__ = ["FileSystemReader", "FileSystemWriter", "load", "load_state_dict", "save", "save_state_dict"]


State: TypeAlias = dict[str, Any]


class _Folder:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def file(self) -> Path:
        """Return the file of this process."""
        return self.path / f"__{get_rank() if is_initialized() else 0}_0.distcp"


class FileSystemWriter(_Folder):
    """The folder that :func:`save` writes.

    Args:
        path: the folder, made where there is none.
    """

    def __init__(self, path: str | os.PathLike[str], **options: object) -> None:
        super().__init__(path)


class FileSystemReader(_Folder):
    """The folder that :func:`load` reads.

    Args:
        path: the folder.
    """


def _place(checkpoint_id: object, given: _Folder | None) -> _Folder:
    if given is not None:
        return given
    if checkpoint_id is None:
        raise RuntimeError("a checkpoint needs a folder: give checkpoint_id, storage_writer or storage_reader")
    return _Folder(os.fspath(checkpoint_id))  # type: ignore[call-overload]


def _plain(state: object) -> object:
    """Return a state with the dictionaries of what is stateful instead of it."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return _plain(state.state_dict()) if isinstance(state, _Stateful) else state


@runtime_checkable
class _Stateful(Protocol):
    def state_dict(self) -> State: ...

    def load_state_dict(self, state_dict: State, /) -> object: ...


def save(
    state_dict: State, *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None, planner: object = None, process_group: object = None,
    no_dist: bool = False, use_collectives: bool = True,
) -> None:  # fmt: skip
    """Write a state: tensors, plain values, and modules and optimisers by their state dictionaries.

    Args:
        state_dict: names and values; dictionaries may be nested.
        checkpoint_id: the folder.
        storage_writer: the folder, instead.

    Raises:
        RuntimeError: no folder is given.
    """
    folder = _place(checkpoint_id, storage_writer)
    folder.path.mkdir(parents=True, exist_ok=True)
    torch.save({"processes": get_world_size() if is_initialized() else 1, "state": _plain(state_dict)}, folder.file())
    if is_initialized():
        barrier(process_group)


def load(
    state_dict: State, *, checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None, planner: object = None, process_group: object = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Read a state into the tensors, modules and optimisers of a state dictionary: only what it names is read.

    Args:
        state_dict: names and values as they were saved; tensors and what is stateful are written into, the rest replaced.
        checkpoint_id: the folder.
        storage_reader: the folder, instead.

    Raises:
        RuntimeError: no folder is given, a name is missing in it, a tensor has another shape, or as many processes did not write it.
    """
    file = _place(checkpoint_id, storage_reader).file()
    found = torch.load(file)
    count = get_world_size() if is_initialized() else 1
    if found["processes"] != count:
        raise RuntimeError(f"{file.parent} was written by {found['processes']} processes, and {count} read it")
    _fill(state_dict, found["state"], "")


def _fill(target: State, source: State, path: str) -> None:
    for name, value in target.items():
        if name not in source:
            raise RuntimeError(f"Missing key in checkpoint state_dict: {path}{name}.")
        kept = source[name]
        if isinstance(value, _Stateful):
            value.load_state_dict(kept)
        elif isinstance(value, Tensor):
            if value.shape != kept.shape:
                raise RuntimeError(
                    f"{path}{name} has the shape {tuple(value.shape)}, and {tuple(kept.shape)} in the checkpoint"
                )
            with torch.no_grad():
                value.copy_(kept.to(value.device))
        elif isinstance(value, dict):
            _fill(value, kept, f"{path}{name}.")
        else:
            target[name] = kept


def save_state_dict(state_dict: State, storage_writer: FileSystemWriter, *_: object, **__: object) -> None:
    """Write a state, as :func:`save`; PyTorch's older name.

    Raises:
        RuntimeError: as :func:`save` does.
    """
    save(state_dict, storage_writer=storage_writer)


def load_state_dict(state_dict: State, storage_reader: FileSystemReader, *_: object, **__: object) -> None:
    """Read a state, as :func:`load`; PyTorch's older name.

    Raises:
        RuntimeError: as :func:`load` does.
    """
    load(state_dict, storage_reader=storage_reader)
