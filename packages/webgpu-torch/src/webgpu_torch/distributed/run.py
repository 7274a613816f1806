"""``python -m webgpu_torch.distributed.run``: starts the processes of a program, as ``torchrun``."""

from webgpu_torch_nn.distributed.run import main as main

if __name__ == "__main__":
    main()
