"""Collectives of Python objects, pickled, as ``torch.distributed`` has them; what others send is run when it is read: trust them."""

from __future__ import annotations

import pickle
from typing import Any, TypeAlias, cast

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.devices import host_device

from .collectives import recv, root_of, send
from .groups import ProcessGroup, member, warn_not_member

Objects: TypeAlias = list[Any]


def _packed(value: object) -> Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)


def _unpacked(data: Tensor) -> object:
    return pickle.loads(bytes(data.tolist()))


def _all(group: ProcessGroup, value: object) -> Objects:
    """Return what all processes bring: their lengths first, then the bytes, padded to the longest."""
    data = _packed(value)
    lengths = [int(each) for each in group.transport.all_gather(torch.tensor([data.numel()], device=data.device))]
    padded = data.new_zeros(max(lengths))
    padded[: data.numel()] = data
    parts = group.transport.all_gather(padded)
    return [_unpacked(each[:length]) for each, length in zip(parts, lengths, strict=True)]


def _of_one(group: ProcessGroup, value: Objects, root: int) -> Objects:
    """Return the list that one process brings."""
    data = _packed(value)
    length = int(group.transport.broadcast(torch.tensor([data.numel()], device=data.device), root))
    found = group.transport.broadcast(data if group.rank() == root else data.new_empty(length), root)
    return cast(Objects, _unpacked(found))


def all_gather_object(object_list: Objects, obj: object, group: object = None) -> None:
    """Give what each process brings to all: a list of as many objects takes it.

    Raises:
        ValueError: there is no default group.
    """
    if (found := member(group)) is None:
        return warn_not_member("all_gather_object")
    object_list[: found.size()] = _all(found, obj)
    return None


def gather_object(
    obj: object, object_gather_list: Objects | None = None, dst: int | None = None, group: object = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Give what each process brings to one, 0 by default, whose list takes it.

    Raises:
        ValueError: that process gave no list.
    """
    if (found := member(group)) is None:
        return warn_not_member("gather_object")
    root = root_of(found, 0 if dst is None and group_dst is None else dst, group_dst)
    objects = _all(found, obj)
    if found.rank() == root:
        if object_gather_list is None:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        object_gather_list[: found.size()] = objects
    return None


def broadcast_object_list(
    object_list: Objects, src: int | None = None, group: object = None, device: object = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Give the objects of one process's list to all, 0 by default; the lists are equally long.

    Raises:
        ValueError: there is no default group, or no such process.
    """
    if (found := member(group)) is None:
        return warn_not_member("broadcast_object_list")
    root = root_of(found, 0 if src is None and group_src is None else src, group_src)
    objects = _of_one(found, object_list, root)
    if found.rank() != root:
        object_list[:] = objects
    return None


def scatter_object_list(
    scatter_object_output_list: Objects, scatter_object_input_list: Objects | None = None, src: int | None = None,
    group: object = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Give each process its object of a list that one has, 0 by default, as the first of its own list.

    Raises:
        ValueError: the list does not have one object for each process.
        TypeError: the other list is empty, or none.
    """
    if (found := member(group)) is None:
        return warn_not_member("scatter_object_list")
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise TypeError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = root_of(found, 0 if src is None and group_src is None else src, group_src)
    if found.rank() == root and len(scatter_object_input_list or ()) != found.size():
        raise ValueError(f"scatter_object_input_list has one object for each of {found.size()} processes")
    scatter_object_output_list[0] = _of_one(found, scatter_object_input_list or [], root)[found.rank()]
    return None


def send_object_list(
    object_list: Objects, dst: int | None = None, group: object = None, device: object = None,
    group_dst: int | None = None, use_batch: bool = False,
) -> None:  # fmt: skip
    """Send objects to another process.

    Raises:
        ValueError: no such process, or this one.
    """
    data = _packed(object_list)
    for each in (torch.tensor([data.numel()], device=data.device), data):
        send(each, dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: Objects, src: int | None = None, group: object = None, device: object = None,
    group_src: int | None = None, use_batch: bool = False,
) -> int:  # fmt: skip
    """Receive as many objects as another process sends; return which sent them.

    Raises:
        ValueError: no such process, or this one.
    """
    length = torch.zeros(1, dtype=torch.int64, device=host_device())
    sender = recv(length, src, group, group_src=group_src)
    data = length.new_empty(int(length), dtype=torch.uint8)
    recv(data, sender, group)
    object_list[:] = cast(Objects, _unpacked(data))
    return sender
