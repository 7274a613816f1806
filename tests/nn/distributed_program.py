"""A program of several processes, which ``mpiexec`` starts: every collective, and training that equals that of one process."""

from __future__ import annotations

import sys

import webgpu_torch as torch
import webgpu_torch.distributed as dist


def collectives(rank: int, size: int) -> None:
    whole = torch.arange(float(size * 3)).reshape(size, 3)
    for operation, wanted in (
        (dist.ReduceOp.SUM, whole.sum(0)), (dist.ReduceOp.AVG, whole.mean(0)), (dist.ReduceOp.MAX, whole.amax(0)),
        (dist.ReduceOp.MIN, whole.amin(0)), (dist.ReduceOp.PRODUCT, whole.prod(0)),
    ):  # fmt: skip
        for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64):
            if operation is not dist.ReduceOp.AVG or kind.is_floating_point:
                x = whole[rank].clone().to(kind)
                dist.all_reduce(x, operation)
                assert x.dtype is kind and torch.allclose(x.double(), wanted.double(), rtol=1e-2), (operation, kind, x)
    z = torch.complex(whole[rank], -whole[rank])
    dist.all_reduce(z)
    assert torch.equal(z, torch.complex(whole.sum(0), -whole.sum(0)))
    x = whole[rank].clone()
    dist.broadcast(x, 1)
    assert torch.equal(x, whole[1])
    x = whole[rank].clone()
    dist.reduce(x, 1)
    assert torch.equal(x, whole.sum(0) if rank == 1 else whole[rank])
    together = torch.zeros(size, 3)
    dist.all_gather_into_tensor(together, whole[rank])
    assert torch.equal(together, whole)
    parts = [torch.zeros(3) for _ in range(size)]
    dist.gather(whole[rank], parts if rank == 0 else None)
    assert torch.equal(torch.stack(parts), whole if rank == 0 else whole * 0)
    x = torch.zeros(3)
    dist.scatter(x, list(whole) if rank == 0 else None)
    assert torch.equal(x, whole[rank])
    dist.reduce_scatter_tensor(x, whole)
    assert torch.equal(x, whole[rank] * size)
    out = [torch.zeros(2) for _ in range(size)]
    dist.all_to_all(out, [torch.tensor([rank, each], dtype=torch.float32) for each in range(size)])
    assert [each.tolist() for each in out] == [[other, rank] for other in range(size)]
    exchange(rank, size)


def exchange(rank: int, size: int) -> None:
    x = torch.tensor([rank])
    if rank == 0:
        dist.send(x, 1)
        assert dist.recv(x, size - 1) == size - 1 and x.item() == size - 1
    else:
        dist.recv(x, rank - 1)
        assert x.item() == rank - 1
        dist.send(torch.tensor([rank]), (rank + 1) % size)
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "much": "x" * (rank + 1) * 100})
    assert [each["rank"] for each in objects] == list(range(size))  # type: ignore[index]
    given = [["one", 2] if rank == 0 else None]
    dist.broadcast_object_list(given, 0)
    assert given == [["one", 2]]
    alone = dist.new_group([1])
    x = torch.tensor([rank])
    if rank == 1:
        assert dist.get_rank(alone) == 0 and dist.get_world_size(alone) == 1
        dist.all_reduce(x, group=alone)
    else:
        assert alone == dist.GroupMember.NON_GROUP_MEMBER
    assert x.item() == rank
    dist.barrier()


def training(rank: int, size: int, accumulate: bool) -> None:
    """Train on a share of each batch, and next to it alone on the whole batch."""
    torch.manual_seed(0)
    inputs, targets = torch.randn(3, 4 * size, 5), torch.randn(3, 4 * size, 2)
    torch.manual_seed(rank)
    shared = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    shared = torch.nn.parallel.DistributedDataParallel(shared)
    torch.manual_seed(0)
    alone = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    assert all(torch.equal(one, other) for one, other in zip(shared.parameters(), alone.parameters(), strict=True))
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (shared, alone)]
    for x, y in zip(inputs, targets, strict=True):
        for each in optimizers:
            each.zero_grad()
        mine = slice(rank, None, size)
        if accumulate:
            with shared.no_sync():
                torch.nn.functional.mse_loss(shared(x[mine][:2]), y[mine][:2]).div(2).backward()
            torch.nn.functional.mse_loss(shared(x[mine][2:]), y[mine][2:]).div(2).backward()
        else:
            torch.nn.functional.mse_loss(shared(x[mine]), y[mine]).backward()
        torch.nn.functional.mse_loss(alone(x), y).backward()
        for each in optimizers:
            each.step()
    for one, other in zip(shared.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def unused(rank: int) -> None:
    """A parameter that only one process uses gets half of its gradient everywhere."""
    module = torch.nn.ModuleDict(
        {"both": torch.nn.Linear(2, 1), "one": torch.nn.Linear(2, 1), "none": torch.nn.Linear(2, 1)}
    )

    class Sometimes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.parts["both"](x) + (self.parts["one"](x) if rank == 0 else 0)

    torch.nn.parallel.DistributedDataParallel(Sometimes(), find_unused_parameters=True)(
        torch.ones(1, 2)
    ).sum().backward()
    assert module["both"].weight.grad.tolist() == [[1.0, 1.0]]
    assert module["one"].weight.grad.tolist() == [[1.0 / dist.get_world_size()] * 2]
    assert module["none"].weight.grad is None


def main() -> None:
    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    collectives(rank, size)
    for accumulate in (False, True):
        training(rank, size, accumulate)
    unused(rank)
    mesh = dist.init_device_mesh("cpu", (size,), mesh_dim_names=("data",))
    assert mesh.get_local_rank() == rank and mesh["data"].size() == size
    dist.destroy_process_group()
    if rank == 0:
        print(f"{size} processes agree", file=sys.stderr)


if __name__ == "__main__":
    main()
