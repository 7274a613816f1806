// The example that takes a model which the site brings.
export const TRAINED = "Text of a trained network";

// The programs that the playground offers.
export const EXAMPLES = {
  Tensors: `import webgpu_torch as torch

x = torch.arange(12.0).reshape(3, 4)
print(x)
print(x.device, torch.webgpu.get_device_name())

# Nothing runs until a result is asked for; then it is one kernel.
y = torch.softmax(x * 0.5 + 1, dim=1)
print(y.sum(dim=1))
print((x @ x.T).round())

# 64-bit integers, halves and bytes work, whatever the graphics card has.
print(torch.tensor([2**40, -7]) // 3, x.half().mean())
`,
  Gradients: `import webgpu_torch as torch
from webgpu_torch_web.site import plot, show

# A function and its derivative, by automatic differentiation.
x = torch.linspace(-6, 6, 200, requires_grad=True)
y = torch.sin(x) * torch.exp(-x.abs() / 4)
y.sum().backward()
plot(y.detach(), x=x.detach(), name="f(x)")
plot(x.grad, x=x.detach(), name="its derivative")

# The Mandelbrot set: forty steps for all points at once.
real, imaginary = torch.meshgrid(torch.linspace(-2.2, 0.8, 180), torch.linspace(-1.2, 1.2, 140), indexing="xy")
a, b, steps = torch.zeros_like(real), torch.zeros_like(real), torch.zeros_like(real)
for _ in range(40):
    a, b = (a * a - b * b + real).clamp(-9, 9), (2 * a * b + imaginary).clamp(-9, 9)
    steps += (a * a + b * b < 4).float()
show(steps.sqrt(), name="the Mandelbrot set")
`,
  "Training a network": `import webgpu_torch as torch
from webgpu_torch import nn
from webgpu_torch_web.site import plot, show

torch.manual_seed(0)

# Two spirals: which one does a point belong to?
t = torch.rand(400) * 3 + 0.3
turn = torch.randint(0, 2, (400,))
angle = 2.2 * t + turn * torch.pi
points = torch.stack([t * torch.cos(angle), t * torch.sin(angle)], 1) / 3 + 0.02 * torch.randn(400, 2)

model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)

@torch.compile
def step():
    loss = nn.functional.cross_entropy(model(points), turn)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()

losses = []
for number in range(200):
    losses.append(step())
    if number % 10 == 9:
        losses[-10:] = torch.stack(losses[-10:]).tolist()
        plot(losses, name="loss")

with torch.no_grad():
    right = (model(points).argmax(1) == turn).float().mean().item()
    y, x = torch.meshgrid(torch.linspace(-1.2, 1.2, 96), torch.linspace(-1.2, 1.2, 96), indexing="ij")
    show(model(torch.stack([x, y], -1).reshape(-1, 2)).softmax(-1)[:, 1].reshape(96, 96), name="what it learned")
print(f"loss {losses[0]:.3f} -> {losses[-1]:.4f}, {right:.1%} right")
`,
  "A tiny GPT": `import webgpu_torch as torch
from webgpu_torch_models import GPT2Config, GPT2LMHeadModel
from webgpu_torch_web.site import plot

# Lewis Carroll, 1871. The network reads letters and learns which one comes next.
TEXT = """'Twas brillig, and the slithy toves
Did gyre and gimble in the wabe;
All mimsy were the borogoves,
And the mome raths outgrabe.

"Beware the Jabberwock, my son!
The jaws that bite, the claws that catch!
Beware the Jubjub bird, and shun
The frumious Bandersnatch!"
"""
STEPS = 200
letters = sorted(set(TEXT))
data = torch.tensor([letters.index(each) for each in TEXT])
windows = data.unfold(0, 32, 1)

torch.manual_seed(0)
config = GPT2Config(vocab_size=len(letters), n_positions=160, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0.0,
                    embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=None)
model = GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)

@torch.compile
def step(batch):
    loss = model(batch, labels=batch).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()

losses = []
for number in range(STEPS):
    losses.append(step(windows[torch.randint(len(windows), (16,))]))
    if number % 5 == 4:
        losses[-5:] = torch.stack(losses[-5:]).tolist()
        plot(losses, name="loss")
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")

# It goes on where six letters end.
written = model.eval().generate(data[:6].unsqueeze(0), max_new_tokens=120, do_sample=False)
print("".join(letters[each] for each in written[0].tolist()))
`,
  [TRAINED]: `import webgpu_torch as torch

# What reads tokenizers comes with the drop-in.
torch.install_as_torch()
from webgpu_torch_models import AutoModelForCausalLM, AutoTokenizer
from webgpu_torch_web.site import fetch_model

# The small GPT-2 that "make demo" trained on this project's documentation.
folder = await fetch_model()
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
print(f"{model.num_parameters():,} parameters, {len(tokenizer)} tokens")

PROMPT = "A tensor is"
tokens = torch.tensor([tokenizer.encode(PROMPT)])
count = min(80, model.config.n_positions - tokens.shape[1])
written = model.generate(tokens, max_new_tokens=count, do_sample=True, temperature=0.8, top_k=40)
print(tokenizer.decode(await written[0].fetch(), skip_special_tokens=True))
`,
};
