"""The demo: real models at many sizes, compared with eager PyTorch and drawn."""
