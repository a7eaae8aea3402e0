"""Export and run one model with an installed etarena: ``python smoke.py [FOLDER it must be installed in]``."""

import logging
import sys
from pathlib import Path

import etarena


def main() -> None:
    """Run a small model at two sizes and compare with eager PyTorch."""
    installed = Path(etarena.__file__).resolve()
    if len(sys.argv) > 1 and not installed.is_relative_to(Path(sys.argv[1]).resolve()):
        sys.exit(f"{installed} is not the installed package")
    logging.disable(logging.WARNING)  # what importing executorch says about itself
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    rows = torch.export.Dim("rows")
    exported = etarena.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: rows},))
    method = etarena.load(exported.buffer).method("forward")
    for count in (1, 1000):
        inputs = torch.randn(count, 4)
        torch.testing.assert_close(method.execute([inputs])[0], model(inputs), rtol=1e-4, atol=1e-5)
    print(f"etarena {etarena.__version__} runs from {installed.parent}")


if __name__ == "__main__":
    main()
