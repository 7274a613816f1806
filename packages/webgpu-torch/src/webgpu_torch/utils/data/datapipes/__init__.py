"""Data sets chained by methods, as ``torch.utils.data.datapipes``."""

from __future__ import annotations

from . import _decorator as _decorator
from . import datapipe as datapipe
from . import iter as iter
from . import map as map
