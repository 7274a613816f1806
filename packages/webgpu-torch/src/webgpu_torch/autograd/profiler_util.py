"""What profiles consist of, as ``torch.autograd.profiler_util``."""

from ..profiler.events import DeviceType as DeviceType
from ..profiler.events import EventList as EventList
from ..profiler.events import FormattedTimesMixin as FormattedTimesMixin
from ..profiler.events import FunctionEvent as FunctionEvent
from ..profiler.events import FunctionEventAvg as FunctionEventAvg
from ..profiler.events import Interval as Interval
from ..profiler.events import Kernel as Kernel

__all__ = ["EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]
