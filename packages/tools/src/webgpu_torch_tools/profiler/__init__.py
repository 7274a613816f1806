"""Where time goes, as ``torch.profiler``."""

from .events import DeviceType as DeviceType
from .profiler import ProfilerAction as ProfilerAction
from .profiler import ProfilerActivity as ProfilerActivity
from .profiler import kineto_available as kineto_available
from .profiler import profile as profile
from .profiler import schedule as schedule
from .profiler import supported_activities as supported_activities
from .profiler import tensorboard_trace_handler as tensorboard_trace_handler
from .ranges import record_function as record_function

__all__ = [
    "DeviceType", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
