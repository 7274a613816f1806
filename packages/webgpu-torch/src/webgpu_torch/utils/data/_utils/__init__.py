"""What loaders are made of, as far as programs use it."""

from . import collate as collate
from . import worker as worker
