"""Processes arranged in a grid, as ``torch.distributed.device_mesh``."""

from __future__ import annotations

from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.devices import host_device

from .groups import ProcessGroup, get_rank, get_world_size, init_process_group, is_initialized, new_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of processes, with a group along each dimension.

    Args:
        device_type: the device that tensors are on.
        mesh: the ranks, a tensor or nested lists of integers; all processes make the same grid.
        mesh_dim_names: what the dimensions are called.

    Raises:
        ValueError: as many names as dimensions are expected; a rank that no process has.
    """

    def __init__(
        self, device_type: str, mesh: Tensor | Sequence[object], *, mesh_dim_names: tuple[str, ...] | None = None
    ) -> None:
        self.device_type = device_type
        self.mesh = torch.as_tensor(mesh, dtype=torch.int64, device=host_device())
        self.mesh_dim_names = mesh_dim_names
        if mesh_dim_names is not None and len(mesh_dim_names) != self.mesh.ndim:
            raise ValueError(f"{self.mesh.ndim} dimensions and {len(mesh_dim_names)} names: {mesh_dim_names}")
        self._groups = [self._group_along(dim) for dim in range(self.mesh.ndim)]

    def _group_along(self, dim: int) -> ProcessGroup | None:
        """Return the group of this process along a dimension; every process asks for all of them."""
        if self.mesh.numel() == get_world_size() and self.mesh.ndim == 1:
            made = [new_group(self.mesh.tolist(), sort_ranks=False)]
            return next((each for each in made if isinstance(each, ProcessGroup)), None)
        lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
        made = [new_group(each, sort_ranks=False) for each in lines]
        return next((each for each in made if isinstance(each, ProcessGroup)), None)

    def _dimension(self, dim: int | str | None) -> int:
        if isinstance(dim, str):
            if dim not in (self.mesh_dim_names or ()):
                raise KeyError(f"no dimension of the mesh is called {dim!r}: {self.mesh_dim_names}")
            return (self.mesh_dim_names or ()).index(dim)
        if dim is None:
            if self.mesh.ndim != 1:
                raise RuntimeError(f"a mesh of {self.mesh.ndim} dimensions has several groups: name a dimension")
            return 0
        return dim

    @property
    def ndim(self) -> int:
        """How many dimensions the grid has."""
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes lie along each."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return how many processes there are, in all or along a dimension."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.shape[mesh_dim]

    def get_rank(self) -> int:
        """Return which of all processes this is."""
        return get_rank()

    def get_coordinate(self) -> list[int] | None:
        """Return where in the grid this process is, None if it is not in it."""
        places = (self.mesh == get_rank()).nonzero().tolist()
        return places[0] if places else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return where along a dimension this process is.

        Raises:
            RuntimeError: there are several dimensions and none is named.
        """
        dim, place = self._dimension(mesh_dim), self.get_coordinate()
        return -1 if place is None else place[dim]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup | None:
        """Return this process's group along a dimension.

        Raises:
            RuntimeError: there are several dimensions and none is named.
        """
        return self._groups[self._dimension(mesh_dim)]

    def get_all_groups(self) -> list[ProcessGroup | None]:
        """Return this process's groups along all dimensions."""
        return list(self._groups)

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the part of the grid that this process shares along named dimensions.

        Raises:
            KeyError: no such name.
        """
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        dims, place = [self._dimension(each) for each in names], self.get_coordinate() or [0] * self.ndim
        part = self.mesh[tuple(slice(None) if dim in dims else place[dim] for dim in range(self.ndim))]
        order = sorted(dims)
        made = DeviceMesh.__new__(DeviceMesh)
        made.device_type, made.mesh_dim_names = self.device_type, names
        made.mesh = part.permute([order.index(dim) for dim in dims])
        made._groups = [self._groups[dim] for dim in dims]
        return made

    def __repr__(self) -> str:
        names = "" if self.mesh_dim_names is None else f", mesh_dim_names={self.mesh_dim_names}"
        return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()}{names})"


def init_device_mesh(
    device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: object = None,
) -> DeviceMesh:  # fmt: skip
    """Return a grid of all processes, numbered row by row; the default group is made if there is none.

    Raises:
        RuntimeError: the shape does not have as many places as there are processes.
        ValueError: the default group cannot be made; names that do not fit.
    """
    if not is_initialized():
        init_process_group()
    ranks = torch.arange(get_world_size(), device=host_device())
    count = 1
    for each in mesh_shape:
        count *= each
    if count != ranks.numel():
        raise RuntimeError(
            f"a mesh of shape {tuple(mesh_shape)} has {count} places, and there are {ranks.numel()} processes"
        )
    return DeviceMesh(device_type, ranks.reshape(tuple(mesh_shape)), mesh_dim_names=mesh_dim_names)
