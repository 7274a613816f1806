"""Writing what TensorBoard shows, as ``torch.utils.tensorboard``; needs tensorboardX."""

from webgpu_torch_nn.utils.tensorboard import SummaryWriter as SummaryWriter
