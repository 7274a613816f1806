"""The types of results with several parts, such as those of ``sort``, as ``torch.return_types``."""

from webgpu_torch_core.operations.return_types import public_types

globals().update(public_types())

#: the types, in the order of their names
all_return_types = [each for _, each in sorted(public_types().items())]
