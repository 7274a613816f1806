"""Schedules that move the momentum against the rate."""

from __future__ import annotations

from typing import Any

from webgpu_torch_nn.optim.lr_scheduler.scheduler import Formula


class WithMomentum(Formula):
    """A schedule that can set the groups' "momentum", or the first of their "betas"."""

    cycle_momentum: bool
    use_beta1: bool

    def _begin_momentum(self, highest: list[Any], lowest: list[Any], last_epoch: int) -> None:
        """Note the momentum's limits in the groups and start at the highest."""
        if last_epoch != -1:
            return
        for group, high, low in zip(self.optimizer.param_groups, highest, lowest, strict=True):
            self._set_momentum(group, high)
            group["max_momentum"] = high
            group["base_momentum"] = low

    def _find_momentum(self) -> None:
        """Note which option is the momentum.

        Raises:
            ValueError: the optimiser has none.
        """
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults

    def _set_momentum(self, group: dict[str, Any], value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value
