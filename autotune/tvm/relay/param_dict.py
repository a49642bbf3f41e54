"""TVM's `relay.param_dict`."""

from autotune.network import load_param_dict, save_param_dict

__all__ = ["load_param_dict", "save_param_dict"]
