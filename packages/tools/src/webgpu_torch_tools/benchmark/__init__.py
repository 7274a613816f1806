"""Measuring how long statements take, as ``torch.utils.benchmark``."""

from .utils.common import Measurement as Measurement
from .utils.common import TaskSpec as TaskSpec
from .utils.common import ordered_unique as ordered_unique
from .utils.common import select_unit as select_unit
from .utils.common import set_torch_threads as set_torch_threads
from .utils.common import trim_sigfig as trim_sigfig
from .utils.common import unit_to_english as unit_to_english
from .utils.compare import Colorize as Colorize
from .utils.compare import Compare as Compare
from .utils.timer import Language as Language
from .utils.timer import Timer as Timer
from .utils.timer import timer as timer

__all__ = [
    "Colorize", "Compare", "Language", "Measurement", "TaskSpec", "Timer", "ordered_unique", "select_unit",
    "set_torch_threads", "timer", "trim_sigfig", "unit_to_english",
]  # fmt: skip
