from typing import Any

import torch

from .device.copies import Copy

def torch_view(value: Any, name: str, copies: list[Copy]) -> tuple[torch.Tensor, int]: ...
