"""Transforms from unconstrained numbers to constrained ones, as ``torch.distributions.constraint_registry``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms
from .transforms import Transform


class ConstraintRegistry:
    """Which transform leads to the values of a constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Transform] | None = None) -> Any:
        """Register a function that makes a constraint's transform; without one, return a decorator.

        Raises:
            TypeError: neither a constraint nor a class of constraints.
        """
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """Return the transform to a constraint's values.

        Raises:
            NotImplementedError: none is registered.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


#: bijections, whose derivatives are known
biject_to = ConstraintRegistry()
#: functions that suit optimisation, by single numbers where possible
transform_to = ConstraintRegistry()


def _shifted(bound: Any, scale: float) -> Transform:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(bound, scale)])


def _to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    numbers = isinstance(low, int | float) and isinstance(high, int | float)
    if numbers and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _register_parts(registry: ConstraintRegistry) -> None:
    """Register, for one registry, what is the same in both, and what is made of other constraints."""
    registry.register(constraints.real, lambda constraint: transforms.identity_transform)
    registry.register(constraints.greater_than, lambda constraint: _shifted(constraint.lower_bound, 1))
    registry.register(constraints.greater_than_eq, lambda constraint: _shifted(constraint.lower_bound, 1))
    registry.register(constraints.less_than, lambda constraint: _shifted(constraint.upper_bound, -1))
    registry.register(constraints.interval, _to_interval)
    registry.register(constraints.half_open_interval, _to_interval)
    registry.register(constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform())
    registry.register(
        constraints.independent,
        lambda constraint: transforms.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
    registry.register(
        constraints.cat,
        lambda constraint: transforms.CatTransform(
            [registry(each) for each in constraint.cseq], constraint.dim, constraint.lengths
        ),
    )
    registry.register(
        constraints.stack,
        lambda constraint: transforms.StackTransform([registry(each) for each in constraint.cseq], constraint.dim),
    )


_register_parts(biject_to)
_register_parts(transform_to)
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
for _each in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_each, lambda constraint: transforms.PositiveDefiniteTransform())

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
