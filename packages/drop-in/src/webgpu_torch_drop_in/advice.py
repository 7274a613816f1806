"""What to use instead of a part of PyTorch that is not here: the longest prefix of a name decides."""

from __future__ import annotations

_COMPILE = "decorate the function or module with torch.compile, which captures what it computes"
_SCRIPT = "call the function or module itself, capture it with torch.compile, or save what torch.jit.trace or torch.export.export make of it"
_DISTRIBUTED = (
    "use DistributedDataParallel in one process, or in several that mpiexec starts (see the page Distributed)"
)
_SPARSE = "use torch.sparse_coo_tensor, sparse_csr_tensor and Tensor.to_sparse, or dense tensors"
_NESTED = "use torch.nested.nested_tensor, or pad to one length and give a mask"
_QUANTIZED = "quantise weights with webgpu_torch's encodings, or compute in torch.float16"
_GPU = "use device='webgpu' and torch.webgpu, which reach the GPU through WebGPU"
_EXPORT = (
    "use torch.export.export, save and load, which are here, or torch.compile, which captures what a function computes"
)
_ONNX = "use torch.onnx.export, which writes operations of opset 20"
_PUBLIC = "use the public function or class that it stands behind in PyTorch"

ADVICE = {
    "torch": "see the page on compatibility for what is there",
    "torch._C": _PUBLIC,
    "torch._C._distributed": _DISTRIBUTED,
    "torch._C._jit": _SCRIPT,
    "torch._dynamo": _COMPILE,
    "torch._export": _EXPORT,
    "torch._functorch": "use torch.func",
    "torch._higher_order_ops": _COMPILE,
    "torch._inductor": _COMPILE,
    "torch._prims": "use the operations under torch",
    "torch._refs": "use the operations under torch",
    "torch._subclasses": "make tensors on device='meta', which have shapes and types and no values",
    "torch.ao": _QUANTIZED,
    "torch.autograd.forward_ad": "use torch.func.jvp",
    "torch.backends": _GPU,
    "torch.cuda": _GPU,
    "torch.distributed": _DISTRIBUTED,
    "torch.distributions": "use another distribution of torch.distributions, or torch's own random functions",
    "torch.export": _EXPORT,
    "torch.fft": "use the other functions of torch.fft",
    "torch.fx": "use torch.fx.symbolic_trace, Graph, GraphModule, Interpreter and replace_pattern, which are here",
    "torch.jit": _SCRIPT,
    "torch.mps": _GPU,
    "torch.mtia": _GPU,
    "torch.nested": _NESTED,
    "torch.onnx": _ONNX,
    "torch.package": "save weights with torch.save and ship the program as a Python package",
    "torch.quantization": _QUANTIZED,
    "torch.quantize_per": _QUANTIZED,
    "torch.quantized": _QUANTIZED,
    "torch.nn.qat": _QUANTIZED,
    "torch.nn.quantized": _QUANTIZED,
    "torch.nn.intrinsic": _QUANTIZED,
    "torch.nn.quantizable": _QUANTIZED,
    "torch.sparse": _SPARSE,
    "torch.Tensor.to_sparse": _SPARSE,
    "torch.Tensor.sparse": _SPARSE,
    "torch.utils.data.datapipes": "use torch.utils.data.Dataset and IterableDataset",
    "torch.utils.cpp_extension": "write the operation in Python, or a kernel as the page on adding operations tells",
    "torch.xpu": _GPU,
}


def advice(path: str) -> str:
    """Return what to use instead of a name of PyTorch that is not here."""
    return ADVICE[max((each for each in ADVICE if path.startswith(each)), key=len, default="torch")]
