"""Workers, as ``torch.utils.data._utils.worker``."""

from webgpu_torch_nn.utils.data.worker import WorkerInfo as WorkerInfo
from webgpu_torch_nn.utils.data.worker import get_worker_info as get_worker_info
