from typing import Any

import torch

def torch_view(value: Any, name: str) -> tuple[torch.Tensor, int]: ...
