"""The package ``functorch``, which PyTorch's distribution brings: older names of ``torch.func``."""

from webgpu_torch import __version__ as __version__
from webgpu_torch._functorch.deprecated import combine_state_for_ensemble as combine_state_for_ensemble
from webgpu_torch._functorch.deprecated import functionalize as functionalize
from webgpu_torch._functorch.deprecated import grad as grad
from webgpu_torch._functorch.deprecated import grad_and_value as grad_and_value
from webgpu_torch._functorch.deprecated import hessian as hessian
from webgpu_torch._functorch.deprecated import jacfwd as jacfwd
from webgpu_torch._functorch.deprecated import jacrev as jacrev
from webgpu_torch._functorch.deprecated import jvp as jvp
from webgpu_torch._functorch.deprecated import make_functional as make_functional
from webgpu_torch._functorch.deprecated import make_functional_with_buffers as make_functional_with_buffers
from webgpu_torch._functorch.deprecated import vjp as vjp
from webgpu_torch._functorch.deprecated import vmap as vmap
from webgpu_torch._functorch.make_functional import FunctionalModule as FunctionalModule
from webgpu_torch._functorch.make_functional import FunctionalModuleWithBuffers as FunctionalModuleWithBuffers
