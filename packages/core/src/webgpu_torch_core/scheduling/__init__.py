"""From recorded single-operation kernels to a plan of merged ones.

``domain`` re-indexes kernels, ``inlining`` replaces loads of pointwise values by their expressions, ``merging`` joins
kernels over one domain, ``localizing`` turns graph slots into operand numbers, ``memory`` assigns buffers.
"""

from .limits import Limits
from .schedule import Recorded, Scheduled, described, joined, schedule

__all__ = ["Limits", "Recorded", "Scheduled", "described", "joined", "schedule"]
