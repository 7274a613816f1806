import torch
from diffusers import DDIMScheduler, UNet2DModel


def steps():
    net = UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
    ).eval()
    scheduler = DDIMScheduler(num_train_timesteps=50)
    scheduler.set_timesteps(3)
    x = torch.randn(1, 3, 16, 16)
    with torch.no_grad():
        for t in scheduler.timesteps:
            x = scheduler.step(net(x, t).sample, t, x).prev_sample
    return x
