"""How conversions of modules and loading put new tensors in the place of parameters: ``torch.__future__``."""

from __future__ import annotations


class _Choices:
    overwrites = False
    swaps = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions such as :meth:`torch.nn.Module.to` make new parameters instead of changing the old ones.

    Args:
        value: True for new parameters.
    """
    _Choices.overwrites = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return what :func:`set_overwrite_module_params_on_conversion` was told, at first False."""
    return _Choices.overwrites


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions of modules and ``load_state_dict`` use :func:`torch.utils.swap_tensors`.

    It comes before :func:`set_overwrite_module_params_on_conversion`.

    Args:
        value: True to exchange the parameters' contents, which keeps the objects and takes tensors of other classes.
    """
    _Choices.swaps = value


def get_swap_module_params_on_conversion() -> bool:
    """Return what :func:`set_swap_module_params_on_conversion` was told, at first False."""
    return _Choices.swaps
