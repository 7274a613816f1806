"""Seeds and states of random streams, as ``torch.random``."""

from webgpu_torch_core.api.random import default_generator as default_generator
from webgpu_torch_core.api.random import fork_rng as fork_rng
from webgpu_torch_core.api.random import get_rng_state as get_rng_state
from webgpu_torch_core.api.random import initial_seed as initial_seed
from webgpu_torch_core.api.random import manual_seed as manual_seed
from webgpu_torch_core.api.random import seed as seed
from webgpu_torch_core.api.random import set_rng_state as set_rng_state
