"""Seeds and states of random streams, as ``torch.random``."""

from __future__ import annotations

from .devices import canonical_device
from .generator import default_generator as _of_device
from .generator import fork_rng as fork_rng
from .generator import get_rng_state as get_rng_state
from .generator import initial_seed as initial_seed
from .generator import manual_seed as manual_seed
from .generator import seed as seed
from .generator import set_rng_state as set_rng_state

default_generator = _of_device(canonical_device("cpu"))
"""The CPU's stream."""
