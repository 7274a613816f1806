"""Independent distributions taken as one of larger values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webgpu_torch_core import Size, Tensor

from . import constraints
from .distribution import Distribution
from .parametric import property_of


class Independent(Distribution):
    """Another distribution whose last batch dimensions belong to the value.

    Args:
        base_distribution: the other distribution.
        reinterpreted_batch_ndims: how many batch dimensions.
        validate_args: see :class:`Distribution`.

    Raises:
        ValueError: there are fewer batch dimensions.
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {batch}"
            )
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        kept = batch - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:kept], shape[kept:], validate_args=validate_args)

    has_rsample: Any = property_of(
        "base_dist.has_rsample", "Whether the other distribution's samples are differentiable."
    )

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether the values can be listed."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """Blocks of the other distribution's values."""
        result = self.base_dist.support
        if result is not None and self.reinterpreted_batch_ndims:
            return constraints.independent(result, self.reinterpreted_batch_ndims)
        return result

    mean = property_of("base_dist.mean", "The mean.")
    mode = property_of("base_dist.mode", "The most likely value.")
    variance = property_of("base_dist.variance", "The variance.")

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return a distribution over an expanded one."""
        new = self._get_checked_instance(Independent, _instance)
        events = self._event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(Size((*batch_shape, *events)))
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, Size(batch_shape), self._event_shape, False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random values without gradients."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Return random values that are differentiable functions of the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density or probability at a value."""
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._summed(self.base_dist.entropy())

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values along a new first dimension.

        Raises:
            NotImplementedError: a value has several numbers.
        """
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def _summed(self, value: Tensor) -> Tensor:
        count = self.reinterpreted_batch_ndims
        return value.sum(tuple(range(-count, 0))) if count else value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
