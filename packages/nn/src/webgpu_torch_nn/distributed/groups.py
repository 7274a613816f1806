"""Groups of processes, as ``torch.distributed``: who is there, and how they are found."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core.config import Variable
from webgpu_torch_core.notices import warn

from ..config import LOCAL_RANK, MASTER_ADDR, MASTER_PORT, RANK, TORCHELASTIC_RUN_ID, WORLD_SIZE
from .stores import FileStore, HashStore, PrefixStore, Store
from .transports import MPI, Alone, Fake, ReduceOp, is_mpi_available

#: how long processes would wait for each other, as PyTorch has it
default_pg_timeout = datetime.timedelta(minutes=30)


class Backend(str):
    """The name of a backend, in lower case.

    Raises:
        ValueError: it is no text.
    """

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name!r:.80}")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """Processes that call collectives together; :func:`new_group` and :func:`init_process_group` make them.

    Args:
        transport: what moves tensors between them.
        ranks: their ranks among all processes, in the group's order.
        backend: what was asked for.
        name: what the group is called.
        store: what they met at.
    """

    def __init__(self, transport: Alone, ranks: Sequence[int], backend: str, name: str, store: Store | None) -> None:
        self.transport = transport
        self.ranks = list(ranks)
        self.backend = Backend(backend)
        self.group_name, self.group_desc = name, name
        self.store = store

    def rank(self) -> int:
        """Return which of the group this process is."""
        return self.transport.rank

    def size(self) -> int:
        """Return how many they are."""
        return len(self.ranks)

    def name(self) -> str:
        """Return the name of the backend."""
        return str(self.backend)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name} of ranks {self.ranks}, {self.backend}>"


#: a group, or the number that stands for one that this process is not in
Group: TypeAlias = "ProcessGroup | int"


class _GroupMember:
    """The default group as ``group.WORLD``, and what a process gets instead of a group that it is not in."""

    NON_GROUP_MEMBER = -100

    @property
    def WORLD(self) -> ProcessGroup | None:
        """The group of all processes, None where there is none yet."""
        return _world.default


class _World:
    """What this process knows of groups."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: list[ProcessGroup] = []
        self.made = 0


_world = _World()
GroupMember = group = _GroupMember()


def is_available() -> bool:
    """Return True: process groups are there."""
    return True


def is_initialized() -> bool:
    """Return whether :func:`init_process_group` was called."""
    return _world.default is not None


def is_gloo_available() -> bool:
    """Return True: ``"gloo"`` is taken for processes on CPUs."""
    return True


def is_nccl_available() -> bool:
    """Return False."""
    return False


def is_ucc_available() -> bool:
    """Return False."""
    return False


def is_xccl_available() -> bool:
    """Return False."""
    return False


def is_torchelastic_launched() -> bool:
    """Return whether ``python -m webgpu_torch.distributed.run`` started this process."""
    return bool(TORCHELASTIC_RUN_ID.text())


def is_backend_available(backend: str) -> bool:
    """Return whether :func:`init_process_group` takes a backend."""
    return backend.lower() in ("gloo", "fake") or (backend.lower() == "mpi" and is_mpi_available())


def get_default_backend_for_device(device: str | torch.device) -> str:
    """Return the backend of a device, ``"gloo"`` for all."""
    return Backend.GLOO


def _required(variable: Variable, given: int) -> int:
    if given >= 0:
        return given
    text = variable.text()
    if not text:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {variable.name} expected, but not set"
        )
    return int(text)


def _met(init_method: str | None, rank: int, world_size: int, store: Store | None) -> tuple[int, int, Store]:
    """Return this process's rank, how many there are, and where they meet."""
    if store is not None:
        if world_size <= 0 or rank < 0:
            raise AssertionError("rank and world_size must be given, not negative, where a store is")
        return rank, world_size, store
    method, _, rest = (init_method or "env://").partition("://")
    if method == "env":
        rank, world_size = _required(RANK, rank), _required(WORLD_SIZE, world_size)
        for each in (MASTER_ADDR, MASTER_PORT):
            if not each.text():
                _required(each, -1)
        return rank, world_size, HashStore()
    if method not in ("file", "tcp"):
        raise RuntimeError(f"No rendezvous handler for {method}://")
    if rank < 0 or world_size < 0:
        missing = "rank" if rank < 0 else "world size"
        raise ValueError(
            f"Error initializing torch.distributed using {method}:// rendezvous: {missing} parameter missing"
        )
    return rank, world_size, FileStore(rest, world_size) if method == "file" else HashStore()


def _transport(backend: Backend, rank: int, world_size: int) -> Alone:
    if backend == Backend.FAKE:
        return Fake(rank, world_size)
    if backend in (Backend.NCCL, Backend.UCC, Backend.XCCL):
        raise RuntimeError(f"Distributed package doesn't have {backend.upper()} built in")
    if backend not in (Backend.GLOO, Backend.MPI, Backend.UNDEFINED):
        raise ValueError(f"Unknown backend {backend}: one of gloo, mpi, fake")
    if world_size == 1:
        return Alone()
    found = MPI.world()
    if (found.rank, found.size) != (rank, world_size):
        raise RuntimeError(
            f"rank {rank} of {world_size} was asked for, and MPI started this process as rank {found.rank} of {found.size}: "
            f"start the program with mpiexec -n {world_size}"
        )
    return found


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
) -> None:
    """Meet the other processes and make the default group.

    One process meets nobody. Several are started by ``mpiexec`` and talk through MPI, whatever of ``"gloo"`` and ``"mpi"``
    is asked for; ``"fake"`` stands for any number of processes without there being any.

    Args:
        backend: ``"gloo"`` (the default), ``"mpi"`` or ``"fake"``; ``"cpu:gloo,cuda:nccl"`` is gloo.
        init_method: ``env://``, ``file://PATH`` or ``tcp://HOST:PORT``.
        world_size, rank: how many processes, and which this is; by ``env://`` from the variables WORLD_SIZE and RANK.
        store: where to meet instead.
        timeout, group_name, pg_options, device_id: taken and ignored.

    Raises:
        ValueError: there is a default group already, or rank or number are not known.
        RuntimeError: a backend that is not here, or several processes without MPI.
    """
    if _world.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    chosen = Backend((backend or "gloo").partition(",")[0].rpartition(":")[2])
    if chosen == Backend.MPI:
        whole = MPI.world()
        rank, world_size, store = whole.rank, whole.size, store or HashStore()
    elif chosen == Backend.FAKE and store is None:
        rank, world_size, store = max(rank, 0), max(world_size, 1), HashStore()
    else:
        rank, world_size, store = _met(init_method, rank, world_size, store)
    found = _transport(chosen, rank, world_size)
    store = PrefixStore("default_pg", store)
    _world.default = ProcessGroup(found, range(world_size), chosen, "default_pg", store)
    _world.groups.append(_world.default)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forget a group; all of them, the default group included, where none is given.

    Raises:
        ValueError: the group is not known.
    """
    if group is None or group is _world.default:
        if _world.default is None:
            raise AssertionError("Process group cannot be None")
        _world.default = None
        _world.groups.clear()
        return
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    if group not in _world.groups:
        raise ValueError("Invalid process group specified")
    _world.groups.remove(group)


def default_group() -> ProcessGroup:
    """Return the default group.

    Raises:
        ValueError: :func:`init_process_group` was not called.
    """
    if _world.default is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _world.default


def member(group: object) -> ProcessGroup | None:
    """Return the group that a collective is called on, None where this process is not in it.

    Raises:
        TypeError: it is no group.
        ValueError: there is no default group.
    """
    if group is None or isinstance(group, _GroupMember):
        return default_group()
    if isinstance(group, ProcessGroup):
        return group
    if group != GroupMember.NON_GROUP_MEMBER:
        raise TypeError(f"expected a ProcessGroup, got {type(group).__name__}")
    return None


def warn_not_member(name: str) -> None:
    """Say that a collective was called on a group that this process is not in."""
    rank = default_group().rank()
    warn(f"Running {name} on global rank {rank} which does not belong to the given group.")


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: datetime.timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
    sort_ranks: bool = True,
) -> Group:
    """Return a group of some processes, ``GroupMember.NON_GROUP_MEMBER`` where this is none of them; all processes ask for it.

    Args:
        ranks: which, all by default.
        backend: the default group's where none is given.
        group_desc: what it is called.
        sort_ranks: in ascending order, or in the given one.
        timeout, pg_options, use_local_synchronization, device_id: taken and ignored.

    Raises:
        ValueError: a rank that no process has, or one twice.
    """
    whole = default_group()
    chosen = list(range(whole.size())) if ranks is None else sorted(ranks) if sort_ranks else list(ranks)
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"a rank is in a group once: {chosen}")
    if any(not 0 <= each < whole.size() for each in chosen):
        raise ValueError(
            f"the new group's rank should be within the world_size set by init_process_group, got {chosen}"
        )
    _world.made += 1
    found = whole.transport.part(chosen)
    if found is None:
        return GroupMember.NON_GROUP_MEMBER
    name = group_desc or str(_world.made)
    store = None if whole.store is None else PrefixStore(name, whole.store)
    made = ProcessGroup(found, chosen, backend or whole.backend, name, store)
    _world.groups.append(made)
    return made


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: datetime.timedelta | None = None, backend: str | None = None,
    pg_options: object = None, group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[Group]]:  # fmt: skip
    """Return this process's group among groups of given ranks, and all of them.

    Raises:
        ValueError: a rank is in two of them.
    """
    flat = [each for ranks in ranks_per_subgroup_list for each in ranks]
    if len(set(flat)) != len(flat):
        raise ValueError(f"a rank is in one of the groups: {ranks_per_subgroup_list}")
    made = [new_group(ranks, timeout, backend, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    return next((each for each in made if isinstance(each, ProcessGroup)), None), made


def new_subgroups(
    group_size: int | None = None, group: object = None, timeout: datetime.timedelta | None = None,
    backend: str | None = None, pg_options: object = None, group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[Group]]:  # fmt: skip
    """Return this process's group among groups of neighbours, and all of them.

    Raises:
        ValueError: the number of processes does not divide.
    """
    count = get_world_size()
    size = count if group_size is None else group_size
    if not 0 < size <= count or count % size:
        raise ValueError(f"The world size ({count}) must be divisible by group_size={size}")
    ranks = [range(start, start + size) for start in range(0, count, size)]
    return new_subgroups_by_enumeration(ranks, timeout, backend, pg_options, group_desc)


def get_rank(group: object = None) -> int:
    """Return which process of a group this is, -1 where it is not in it.

    Raises:
        ValueError: there is no default group.
    """
    found = member(group)
    return -1 if found is None else found.rank()


def get_world_size(group: object = None) -> int:
    """Return how many processes a group has, -1 where this is not one of them.

    Raises:
        ValueError: there is no default group.
    """
    found = member(group)
    return -1 if found is None else found.size()


def get_backend(group: object = None) -> str:
    """Return the name of a group's backend.

    Raises:
        ValueError: there is no default group, or this process is not in the group.
    """
    found = member(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return str(found.backend)


def get_backend_config(group: object = None) -> str:
    """Return the backend of each device, such as ``"cpu:gloo"``.

    Raises:
        ValueError: there is no default group, or this process is not in the group.
    """
    return f"cpu:{get_backend(group)}"


def get_pg_count() -> int:
    """Return how many groups there are."""
    return len(_world.groups)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return which process of this machine this is, from the variable LOCAL_RANK.

    Raises:
        RuntimeError: it is not set, and no rank is given instead.
    """
    text = LOCAL_RANK.text()
    if text:
        return int(text)
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work"
    )


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """Return the ranks of a group's processes among all."""
    return list((group or default_group()).ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return which of a group a process is.

    Raises:
        ValueError: it is not in the group.
    """
    if global_rank not in group.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return group.ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return which of all processes one of a group is.

    Raises:
        ValueError: the group has fewer.
    """
    if not 0 <= group_rank < len(group.ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return group.ranks[group_rank]


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Return whether complex numbers are combined part by part: sums and averages are."""
    return reduceOp.name in ("SUM", "AVG", "PREMUL_SUM")
