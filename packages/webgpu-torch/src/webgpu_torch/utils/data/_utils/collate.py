"""Joining samples, as ``torch.utils.data._utils.collate``."""

import re

from webgpu_torch_nn.utils.data.collate import collate as collate
from webgpu_torch_nn.utils.data.collate import default_collate as default_collate
from webgpu_torch_nn.utils.data.collate import default_collate_fn_map as default_collate_fn_map
from webgpu_torch_nn.utils.data.collate import default_convert as default_convert

#: types of NumPy's that hold texts or objects, which no tensor can
np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)
