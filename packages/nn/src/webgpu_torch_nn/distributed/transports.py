"""What moves tensors between processes: nothing, where there is one; MPI, where there are several."""

from __future__ import annotations

import enum
import importlib.util
from collections.abc import Sequence
from typing import Any, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

#: NumPy's arrays and mpi4py's communicators: neither is imported before several processes are asked for
Array: TypeAlias = Any
_Communicator: TypeAlias = Any


class ReduceOp(enum.Enum):
    """How collectives combine what processes bring."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


# PyTorch's name of the members' class; libraries annotate with it.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class Alone:
    """The transport of one process: it has everything itself. It also says what a transport is.

    Tensors that are given are not changed, and those that are returned may be the same.
    """

    rank, size = 0, 1

    def all_reduce(self, tensor: Tensor, operation: ReduceOp) -> Tensor:
        """Return what all processes bring, combined; PREMUL_SUM was multiplied before."""
        return tensor

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        """Return one process's tensor; all bring one of its shape and type."""
        return tensor

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """Return what all processes bring, in their order: tensors of one shape and type."""
        return [tensor]

    def all_to_all(self, tensors: Sequence[Tensor], likes: Sequence[Tensor]) -> list[Tensor]:
        """Return what each process has for this one, shaped as ``likes``; this one's for each are ``tensors``."""
        return list(tensors)

    def send(self, tensor: Tensor, receiver: int, tag: int) -> None:
        """Send a tensor to another process.

        Raises:
            ValueError: there is no other.
        """
        raise ValueError(f"rank {receiver} is not another process: a process does not send to itself")

    def receive(self, like: Tensor, sender: int | None, tag: int) -> tuple[Tensor, int]:
        """Return a tensor that another process sends, any where none is named, and which.

        Raises:
            ValueError: there is no other.
        """
        raise ValueError(f"rank {sender} is not another process: a process does not receive from itself")

    def barrier(self) -> None:
        """Wait for all processes."""

    def part(self, ranks: Sequence[int]) -> Alone | None:
        """Return the transport among some processes, in their order, None where this is not one of them; all ask for it."""
        return self if self.rank in ranks else None


class Fake(Alone):
    """Stands for several processes of which there is only this one: each of the others brings what this one does."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensor once for each process."""
        return [tensor] * self.size

    def send(self, tensor: Tensor, receiver: int, tag: int) -> None:
        """Do nothing."""

    def receive(self, like: Tensor, sender: int | None, tag: int) -> tuple[Tensor, int]:
        """Return what is there."""
        return like, 0 if sender is None else sender

    def part(self, ranks: Sequence[int]) -> Alone | None:
        """Return what stands for some of the processes."""
        return Fake(list(ranks).index(self.rank), len(ranks)) if self.rank in ranks else None


class MPI(Alone):
    """Processes that ``mpiexec`` started, through mpi4py: tensors travel through the host's memory, and sums are MPI's."""

    NAMES = {
        ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PREMUL_SUM: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN",
        ReduceOp.MAX: "MAX", ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
    }  # fmt: skip

    def __init__(self, communicator: _Communicator) -> None:
        self.communicator = communicator
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()

    @staticmethod
    def world() -> MPI:
        """Return the transport among all processes.

        Raises:
            RuntimeError: mpi4py is not installed.
        """
        if not is_mpi_available():
            raise RuntimeError(
                "several processes talk through MPI, and mpi4py is not installed: pip install 'webgpu-torch[distributed]', "
                "and start them with mpiexec -n PROCESSES python SCRIPT"
            )
        # An extra: looked for when several processes are asked for.
        from mpi4py import MPI as library

        return MPI(library.COMM_WORLD)

    def all_reduce(self, tensor: Tensor, operation: ReduceOp) -> Tensor:
        """Return what all processes bring, combined; 16-bit numbers are combined in float32."""
        # An extra, as above.
        from mpi4py import MPI as library

        wide = tensor.to(torch.float32) if tensor.dtype.is_floating_point and tensor.dtype.itemsize == 2 else tensor
        if wide.dtype is torch.bool:
            wide = wide.to(torch.uint8)
        given = _array(wide)
        result = given.copy()
        self.communicator.Allreduce(given, result, getattr(library, self.NAMES[operation]))
        combined = torch.from_numpy(result)
        if operation is ReduceOp.AVG:
            combined = combined / self.size if wide.dtype.is_floating_point else combined // self.size
        return combined.to(tensor.dtype).to(tensor.device)

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        """Return one process's tensor."""
        data = _bytes(tensor).copy()
        self.communicator.Bcast(data, root)
        return _shaped(data, tensor)

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """Return what all processes bring."""
        given = _bytes(tensor)
        found = given.repeat(self.size)
        self.communicator.Allgather(given, found)
        return [_shaped(each, tensor) for each in found.reshape(self.size, -1)]

    def all_to_all(self, tensors: Sequence[Tensor], likes: Sequence[Tensor]) -> list[Tensor]:
        """Return what each process has for this one."""
        waiting = [self.communicator.Isend(_bytes(each), rank) for rank, each in enumerate(tensors)]
        found = [_bytes(each).copy() for each in likes]
        for rank, each in enumerate(found):
            self.communicator.Recv(each, rank)
        for each in waiting:
            each.Wait()
        return [_shaped(data, like) for data, like in zip(found, likes, strict=True)]

    def send(self, tensor: Tensor, receiver: int, tag: int) -> None:
        """Send a tensor to another process."""
        self.communicator.Send(_bytes(tensor), receiver, tag)

    def receive(self, like: Tensor, sender: int | None, tag: int) -> tuple[Tensor, int]:
        """Return a tensor that another process sends, and which does."""
        # An extra, as above.
        from mpi4py import MPI as library

        data, status = _bytes(like).copy(), library.Status()
        self.communicator.Recv(data, library.ANY_SOURCE if sender is None else sender, tag, status)
        return _shaped(data, like), status.Get_source()

    def barrier(self) -> None:
        """Wait for all processes."""
        self.communicator.Barrier()

    def part(self, ranks: Sequence[int]) -> Alone | None:
        """Return the transport among some processes."""
        own = self.rank in ranks
        # Those left out take part in the split, too, in a group of their own.
        made = self.communicator.Split(0 if own else 1, list(ranks).index(self.rank) if own else self.rank)
        return MPI(made) if own else None


def is_mpi_available() -> bool:
    """Return whether mpi4py is installed, through which several processes talk."""
    return importlib.util.find_spec("mpi4py") is not None


def _array(tensor: Tensor) -> Array:
    return tensor.detach().to("cpu").contiguous().numpy()


def _bytes(tensor: Tensor) -> Array:
    return tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy()


def _shaped(data: Array, like: Tensor) -> Tensor:
    return torch.from_numpy(data).view(like.dtype).reshape(like.shape).to(like.device)
