"""From recorded single-operation kernels to a plan of merged ones.

``placing`` tells kernels from the graph slots that they are about, ``domain`` re-indexes kernels, ``inlining`` replaces loads of
pointwise values by their expressions, ``merging`` joins kernels over one domain, ``localizing`` gives operands their last numbers,
``memory`` assigns buffers.
"""

from .limits import Limits
from .schedule import Recorded, Scheduled, described, joined, schedule

__all__ = ["Limits", "Recorded", "Scheduled", "described", "joined", "schedule"]
