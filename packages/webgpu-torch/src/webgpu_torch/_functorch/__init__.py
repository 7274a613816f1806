"""Where PyTorch keeps ``torch.func``'s older names."""

from . import apis as apis
from . import autograd_function as autograd_function
from . import deprecated as deprecated
from . import eager_transforms as eager_transforms
from . import make_functional as make_functional
