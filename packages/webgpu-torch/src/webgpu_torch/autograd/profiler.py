"""The profiler by its older name, as ``torch.autograd.profiler``."""

from ..profiler.events import EventList as EventList
from ..profiler.events import FunctionEvent as FunctionEvent
from ..profiler.events import FunctionEventAvg as FunctionEventAvg
from ..profiler.ranges import profile as profile
from ..profiler.ranges import record_function as record_function

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]
