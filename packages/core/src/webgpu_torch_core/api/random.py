"""Seeds and states of random streams, as ``torch.random``."""

from __future__ import annotations

from ..operations.random.generator import default_generator as _of_device
from ..operations.random.generator import fork_rng as fork_rng
from ..operations.random.generator import get_rng_state as get_rng_state
from ..operations.random.generator import initial_seed as initial_seed
from ..operations.random.generator import manual_seed as manual_seed
from ..operations.random.generator import seed as seed
from ..operations.random.generator import set_rng_state as set_rng_state
from ..record.devices import canonical_device

default_generator = _of_device(canonical_device("cpu"))
"""The CPU's stream."""
