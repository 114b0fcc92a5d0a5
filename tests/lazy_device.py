"""A second device that every torch has, for tests of what a GPU needs: its tensors are not the CPU's."""

import torch._lazy.ts_backend

DEVICE = "lazy:0"
torch._lazy.ts_backend.init()
