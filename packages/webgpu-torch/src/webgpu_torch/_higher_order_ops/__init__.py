"""``torch._higher_order_ops``: operations that take functions."""

from .associative_scan import associative_scan as associative_scan
from .cond import cond as cond
