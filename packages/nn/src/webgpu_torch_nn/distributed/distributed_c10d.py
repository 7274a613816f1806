"""What groups of processes can do, under PyTorch's name for the module."""

from __future__ import annotations

from webgpu_torch_nn._exports import exported as _exported

from .collectives import P2POp as P2POp
from .collectives import Work as Work
from .collectives import all_gather as all_gather
from .collectives import all_gather_into_tensor as all_gather_into_tensor
from .collectives import all_reduce as all_reduce
from .collectives import all_to_all as all_to_all
from .collectives import all_to_all_single as all_to_all_single
from .collectives import barrier as barrier
from .collectives import batch_isend_irecv as batch_isend_irecv
from .collectives import broadcast as broadcast
from .collectives import gather as gather
from .collectives import irecv as irecv
from .collectives import isend as isend
from .collectives import monitored_barrier as monitored_barrier
from .collectives import recv as recv
from .collectives import reduce as reduce
from .collectives import reduce_scatter as reduce_scatter
from .collectives import reduce_scatter_tensor as reduce_scatter_tensor
from .collectives import scatter as scatter
from .collectives import send as send
from .groups import Backend as Backend
from .groups import GroupMember as GroupMember
from .groups import ProcessGroup as ProcessGroup
from .groups import default_pg_timeout as default_pg_timeout
from .groups import destroy_process_group as destroy_process_group
from .groups import get_backend as get_backend
from .groups import get_backend_config as get_backend_config
from .groups import get_default_backend_for_device as get_default_backend_for_device
from .groups import get_global_rank as get_global_rank
from .groups import get_group_rank as get_group_rank
from .groups import get_node_local_rank as get_node_local_rank
from .groups import get_pg_count as get_pg_count
from .groups import get_process_group_ranks as get_process_group_ranks
from .groups import get_rank as get_rank
from .groups import get_world_size as get_world_size
from .groups import group as group
from .groups import init_process_group as init_process_group
from .groups import is_available as is_available
from .groups import is_backend_available as is_backend_available
from .groups import is_gloo_available as is_gloo_available
from .groups import is_initialized as is_initialized
from .groups import is_nccl_available as is_nccl_available
from .groups import is_torchelastic_launched as is_torchelastic_launched
from .groups import is_ucc_available as is_ucc_available
from .groups import is_xccl_available as is_xccl_available
from .groups import new_group as new_group
from .groups import new_subgroups as new_subgroups
from .groups import new_subgroups_by_enumeration as new_subgroups_by_enumeration
from .groups import supports_complex as supports_complex
from .objects import all_gather_object as all_gather_object
from .objects import broadcast_object_list as broadcast_object_list
from .objects import gather_object as gather_object
from .objects import recv_object_list as recv_object_list
from .objects import scatter_object_list as scatter_object_list
from .objects import send_object_list as send_object_list
from .stores import DistStoreError as DistStoreError
from .stores import FileStore as FileStore
from .stores import HashStore as HashStore
from .stores import PrefixStore as PrefixStore
from .stores import Store as Store
from .stores import TCPStore as TCPStore
from .transports import ReduceOp as ReduceOp
from .transports import is_mpi_available as is_mpi_available

__all__ = _exported(globals())
