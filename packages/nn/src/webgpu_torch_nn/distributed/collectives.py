"""What processes compute together, as ``torch.distributed``: reductions, copies, exchanges; the results are written into the tensors given.

A collective returns None, or, with ``async_op``, a :class:`Work` that is done already. A process that is not in the group is
warned and nothing happens.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from .groups import GroupMember, ProcessGroup, get_group_rank, member, supports_complex, warn_not_member
from .transports import ReduceOp


class Work:
    """A collective under way; here it is done when it is returned.

    Args:
        result: the tensors that it wrote.
        sender: of :func:`irecv`, who sent.
    """

    def __init__(self, result: Sequence[Tensor] = (), sender: int = -1) -> None:
        self._result, self._sender = list(result), sender

    def is_completed(self) -> bool:
        """Return True."""
        return True

    def is_success(self) -> bool:
        """Return True: what fails raises at the call."""
        return True

    def exception(self) -> None:
        """Return None, for the same reason."""

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Return True."""
        return True

    def synchronize(self) -> None:
        """Return at once."""

    def result(self) -> list[Tensor]:
        """Return the tensors that were written."""
        return self._result

    def source_rank(self) -> int:
        """Return which process sent what was received."""
        return self._sender


def _require_tensor(value: object, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor but got {type(value)} instead."
        )


def _require_tensors(value: object, name: str) -> None:
    if not isinstance(value, list) or not all(isinstance(each, Tensor) for each in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor] but got {type(value)}"
        )


def _require_count(tensors: Sequence[Tensor], group: ProcessGroup, name: str) -> None:
    if len(tensors) != group.size():
        raise ValueError(
            f"{name} has {len(tensors)} tensors, and the group {group.size()} processes: one for each is expected"
        )


def _write(target: Tensor, source: Tensor) -> None:
    """Overwrite a tensor's elements with another's of as many."""
    if target.numel() != source.numel():
        raise ValueError(f"a tensor of shape {tuple(target.shape)} cannot hold {source.numel()} elements")
    with torch.no_grad():
        if source is not target:
            target.copy_(source.detach().to(target.dtype).reshape(target.shape))


def _done(async_op: bool, *tensors: Tensor) -> Work | None:
    return Work(tensors) if async_op else None


def root_of(group: ProcessGroup, rank: int | None, own: int | None) -> int:
    """Return which of a group a process is that is given by its rank among all, or in the group.

    Raises:
        ValueError: neither is given or both are, or it is not in the group.
        RuntimeError: there is no such process.
    """
    if rank is not None and own is not None:
        raise ValueError("Can't specify both group rank and global rank")
    if own is not None:
        return own
    if rank is None:
        raise ValueError("Must specify global or group rank")
    if group is GroupMember.WORLD and not 0 <= rank < group.size():
        raise RuntimeError(f"rank {rank} is not one of {group.size()} processes")
    return get_group_rank(group, rank)


def _root_or_first(group: ProcessGroup, rank: int | None, own: int | None) -> int:
    """Return what :func:`root_of` does; the first process where neither is given."""
    return root_of(group, 0 if rank is None and own is None else rank, own)


def _combined(group: ProcessGroup, tensor: Tensor, operation: ReduceOp) -> Tensor:
    given = tensor.detach()
    if given.is_complex():
        if not supports_complex(operation):
            raise ValueError(f"all_reduce does not support {operation} on complex tensors")
        return torch.view_as_complex(group.transport.all_reduce(torch.view_as_real(given), operation))
    if operation in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and given.is_floating_point():
        raise RuntimeError(f"Cannot use {operation} with non-integral dtype")
    return group.transport.all_reduce(given, operation)


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """Combine what all processes bring; each has the result in its tensor.

    Raises:
        TypeError: it is no tensor.
        ValueError: an operation that there is not of complex numbers.
        RuntimeError: bits of what are no integers.
    """
    _require_tensor(tensor, "tensor")
    if (found := member(group)) is None:
        return warn_not_member("all_reduce")
    _write(tensor, _combined(found, tensor, op))
    return _done(async_op, tensor)


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: object = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Combine what all processes bring; one has the result in its tensor.

    Raises:
        TypeError: it is no tensor.
        RuntimeError: no such process.
    """
    _require_tensor(tensor, "tensor")
    if (found := member(group)) is None:
        return warn_not_member("reduce")
    root, result = root_of(found, dst, group_dst), _combined(found, tensor, op)
    if found.rank() == root:
        _write(tensor, result)
    return _done(async_op, tensor)


def broadcast(
    tensor: Tensor, src: int | None = None, group: object = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Give one process's tensor to all.

    Raises:
        TypeError: it is no tensor.
        RuntimeError: no such process.
    """
    _require_tensor(tensor, "tensor")
    if (found := member(group)) is None:
        return warn_not_member("broadcast")
    _write(tensor, found.transport.broadcast(tensor.detach(), root_of(found, src, group_src)))
    return _done(async_op, tensor)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: object = None, async_op: bool = False) -> Work | None:
    """Give what each process brings to all: a list of as many tensors takes it.

    Raises:
        TypeError: no tensors.
        ValueError: not one tensor for each process.
    """
    _require_tensors(tensor_list, "tensor_list")
    _require_tensor(tensor, "tensor")
    if (found := member(group)) is None:
        return warn_not_member("all_gather")
    _require_count(tensor_list, found, "tensor_list")
    for target, source in zip(tensor_list, found.transport.all_gather(tensor.detach()), strict=True):
        _write(target, source)
    return _done(async_op, *tensor_list)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: object = None, async_op: bool = False
) -> Work | None:
    """Give what each process brings to all, one after the other in one tensor.

    Raises:
        TypeError: no tensors.
        ValueError: the output does not hold all.
    """
    _require_tensor(output_tensor, "output_tensor")
    _require_tensor(input_tensor, "input_tensor")
    if (found := member(group)) is None:
        return warn_not_member("all_gather_into_tensor")
    _write(output_tensor, torch.stack(found.transport.all_gather(input_tensor.detach())))
    return _done(async_op, output_tensor)


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: object = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Give what each process brings to one, 0 by default, whose list takes it.

    Raises:
        TypeError: no tensors.
        ValueError: that process gave no list of one tensor for each, or another gave one.
    """
    _require_tensor(tensor, "tensor")
    if (found := member(group)) is None:
        return warn_not_member("gather")
    root = _root_or_first(found, dst, group_dst)
    parts = found.transport.all_gather(tensor.detach())
    if found.rank() != root:
        if gather_list:
            raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
        return _done(async_op)
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _require_tensors(gather_list, "gather_list")
    _require_count(gather_list, found, "gather_list")
    for target, source in zip(gather_list, parts, strict=True):
        _write(target, source)
    return _done(async_op, *gather_list)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: object = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Give each process its part of a list that one has, 0 by default.

    Raises:
        TypeError: no tensors.
        ValueError: that process gave no list of one tensor for each, or another gave one.
    """
    _require_tensor(tensor, "tensor")
    if (found := member(group)) is None:
        return warn_not_member("scatter")
    root = _root_or_first(found, src, group_src)
    if found.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        _require_tensors(scatter_list, "scatter_list")
        _require_count(scatter_list, found, "scatter_list")
        whole = torch.stack([each.detach() for each in scatter_list])
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    else:
        whole = tensor.detach().new_empty((found.size(), *tensor.shape))
    _write(tensor, found.transport.broadcast(whole, root)[found.rank()])
    return _done(async_op, tensor)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """Combine lists of one tensor for each process; each has its part.

    Raises:
        TypeError: no tensors.
        ValueError: not one tensor for each process.
    """
    _require_tensor(output, "output")
    _require_tensors(input_list, "input_list")
    if (found := member(group)) is None:
        return warn_not_member("reduce_scatter")
    _require_count(input_list, found, "input_list")
    _write(output, _combined(found, torch.stack([each.detach() for each in input_list]), op)[found.rank()])
    return _done(async_op, output)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """Combine tensors that have a part for each process, one after the other; each has its part.

    Raises:
        TypeError: no tensors.
        ValueError: the input does not divide into the output.
    """
    _require_tensor(output, "output")
    _require_tensor(input, "input")
    if (found := member(group)) is None:
        return warn_not_member("reduce_scatter_tensor")
    if input.numel() != output.numel() * found.size():
        raise ValueError("input tensor must be the same size as output size times world size")
    _write(output, _combined(found, input, op).reshape(found.size(), -1)[found.rank()])
    return _done(async_op, output)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: object = None, async_op: bool = False
) -> Work | None:
    """Give each process its part of each other's list.

    Raises:
        TypeError: no tensors.
        ValueError: not one tensor for each process.
    """
    _require_tensors(output_tensor_list, "output_tensor_list")
    _require_tensors(input_tensor_list, "input_tensor_list")
    if (found := member(group)) is None:
        return warn_not_member("all_to_all")
    _require_count(output_tensor_list, found, "output_tensor_list")
    _require_count(input_tensor_list, found, "input_tensor_list")
    given = [each.detach() for each in input_tensor_list]
    for target, source in zip(output_tensor_list, found.transport.all_to_all(given, output_tensor_list), strict=True):
        _write(target, source)
    return _done(async_op, *output_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None, input_split_sizes: list[int] | None = None,
    group: object = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Give each process its part of each other's tensor: rows of the first dimension, as many for each unless sizes are given.

    Raises:
        TypeError: no tensors.
        RuntimeError: the first dimension is not the sum of the sizes.
    """
    _require_tensor(output, "output")
    _require_tensor(input, "input")
    if (found := member(group)) is None:
        return warn_not_member("all_to_all_single")
    targets, sources = (
        list(each.detach().split(sizes or [each.shape[0] // found.size()] * found.size()))
        for each, sizes in ((output, output_split_sizes), (input, input_split_sizes))
    )
    for target, source in zip(targets, found.transport.all_to_all(sources, targets), strict=True):
        _write(target, source)
    return _done(async_op, output)


def barrier(group: object = None, async_op: bool = False, device_ids: object = None) -> Work | None:
    """Wait for all processes.

    Raises:
        ValueError: there is no default group.
    """
    if (found := member(group)) is None:
        return warn_not_member("barrier")
    found.transport.barrier()
    return _done(async_op)


def monitored_barrier(
    group: object = None, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait for all processes, as :func:`barrier`; those that do not come are not named.

    Raises:
        ValueError: there is no default group.
    """
    barrier(group)


# From one process to another


def _peer(group: ProcessGroup, rank: int | None, own: int | None, what: str) -> int:
    peer = root_of(group, rank, own)
    if peer == group.rank():
        # As in PyTorch, which asks before it sends; its transport refuses to receive.
        kind = ValueError if what == "destination" else RuntimeError
        raise kind(f"Invalid {what} rank: {what} rank should not be the same as the rank of the current process.")
    return peer


def isend(
    tensor: Tensor, dst: int | None = None, group: object = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Send a tensor to another process, as :func:`send`.

    Raises:
        TypeError: it is no tensor.
        ValueError: no such process, or this one.
    """
    _require_tensor(tensor, "tensor")
    if (found := member(group)) is None:
        return warn_not_member("isend")
    found.transport.send(tensor.detach(), _peer(found, dst, group_dst, "destination"), tag)
    return Work()


def send(
    tensor: Tensor, dst: int | None = None, group: object = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor to another process.

    Raises:
        TypeError: it is no tensor.
        ValueError: no such process, or this one.
    """
    isend(tensor, dst, group, tag, group_dst)


def irecv(
    tensor: Tensor, src: int | None = None, group: object = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Receive a tensor from another process, as :func:`recv`.

    Raises:
        TypeError: it is no tensor.
        RuntimeError: no such process, or this one.
    """
    _require_tensor(tensor, "tensor")
    if (found := member(group)) is None:
        return warn_not_member("irecv")
    named = src is not None or group_src is not None
    sender = _peer(found, src, group_src, "source") if named else None
    result, sender = found.transport.receive(tensor.detach(), sender, tag)
    _write(tensor, result)
    return Work([tensor], found.ranks[sender])


def recv(
    tensor: Tensor, src: int | None = None, group: object = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a tensor from another process, from any where none is named; return which sent it, -1 outside of the group.

    Raises:
        TypeError: it is no tensor.
        ValueError: no such process, or this one.
    """
    work = irecv(tensor, src, group, tag, group_src)
    return -1 if work is None else work.source_rank()


class P2POp:
    """A :func:`isend` or :func:`irecv` that :func:`batch_isend_irecv` is to call.

    Args:
        op: one of the two.
        tensor: what is sent, or takes what is received.
        peer: the other process.
        group, tag: as of the function.
        group_peer: the other process in the group, instead of ``peer``.
    """

    def __init__(
        self, op: Callable[..., Work | None], tensor: Tensor, peer: int | None = None, group: object = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError(
                f"Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or irecv, got {op}"
            )
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = (
            op,
            tensor,
            peer,
            group,
            tag,
            group_peer,
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Send and receive several tensors: all are sent before any is received.

    Raises:
        ValueError: an empty list, or what are no :class:`P2POp`.
    """
    if not p2p_op_list or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``")
    works: dict[int, Work | None] = {}
    for number, each in sorted(enumerate(p2p_op_list), key=lambda one: one[1].op is irecv):
        works[number] = each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer)
    return [work for _, work in sorted(works.items()) if work is not None]
