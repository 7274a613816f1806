"""The command line: ``webgpu-torch``, also ``python -m webgpu_torch``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def _add_model_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", required=True, help="a folder with a checkpoint, or an id on the Hugging Face hub")
    command.add_argument("--device", help="cpu, webgpu or webgpu:N; the GPU if there is a real one")
    command.add_argument("--dtype", default="auto", help="float32, float16, bfloat16, or auto for the checkpoint's own")
    command.add_argument("--seed", type=int, default=0, help="starts the random numbers")
    command.add_argument(
        "--attn", default="sdpa", choices=("sdpa", "eager", "webgpu_torch"), help="how transformers computes attention"
    )


def _add_text_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--max-new-tokens", type=int, default=100)
    command.add_argument("--temperature", type=float, default=0.8, help="0 takes the likeliest token every time")
    command.add_argument("--top-k", type=int, default=50)
    command.add_argument("--top-p", type=float, default=1.0)


def _add_web(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True)
    build = actions.add_parser("build", help="write the site into a folder that any server of files can serve")
    build.add_argument("folder", nargs="?", default="site")
    serve = actions.add_parser("serve", help="build the site and serve it on this machine")
    serve.add_argument("--port", type=int, default=8000)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(prog="webgpu-torch", description="PyTorch's API on any GPU that speaks WebGPU.")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="list backends, devices, limits, versions and the origin of each plugin")
    info.add_argument("--numerics", action="store_true", help="measure the accuracy of the adapter's scalar functions")
    run = commands.add_parser("run", help="run a PyTorch program with this library in torch's place")
    run.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module, not a file")
    run.add_argument("script", help="the program's file")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program receives")
    generate = commands.add_parser("generate", help="continue a text")
    _add_model_options(generate)
    generate.add_argument("--prompt", required=True)
    _add_text_options(generate)
    chat = commands.add_parser("chat", help="talk with a model; an empty line ends it")
    _add_model_options(chat)
    chat.add_argument("--system", help="the instruction that the conversation starts with")
    _add_text_options(chat)
    embed = commands.add_parser("embed", help="print the vectors of texts as JSON, one line each")
    _add_model_options(embed)
    embed.add_argument("texts", nargs="+")
    classify = commands.add_parser("classify", help="print the classes of texts or image files, the likeliest first")
    _add_model_options(classify)
    classify.add_argument("inputs", nargs="+", help="texts, or names of image files")
    classify.add_argument("--top", type=int, default=5, help="how many classes to print")
    transcribe = commands.add_parser("transcribe", help="write down what is said in WAV files")
    _add_model_options(transcribe)
    transcribe.add_argument("files", nargs="+")
    _add_web(commands.add_parser("web", help="the library in a browser: playground, conformance, benchmarks"))
    image = commands.add_parser("image", help="draw an image from a text")
    _add_model_options(image)
    image.add_argument("--prompt", required=True)
    image.add_argument("--negative-prompt")
    image.add_argument("--steps", type=int, default=30)
    image.add_argument("--guidance", type=float, default=7.5)
    image.add_argument("--width", type=int)
    image.add_argument("--height", type=int)
    image.add_argument("--output", default="image.png")
    return parser


def _run_command(options: argparse.Namespace) -> int:
    if options.command == "info":
        from webgpu_torch_core import plugins

        print(plugins.describe())
        if options.numerics:
            print(plugins.registry.backend("webgpu").numerics())  # type: ignore[attr-defined]
        return 0
    if options.command == "run":
        from .run import run_program

        return run_program(options.script, options.arguments, as_module=options.module)
    if options.command == "web":
        from .web import run_web

        return run_web(options)
    from .problems import explained

    with explained(options):
        if options.command == "image":
            from .image import draw

            return draw(options)
        if options.command == "transcribe":
            from .transcribe import transcribe

            return transcribe(options)
        from . import text

        return getattr(text, options.command)(options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    options = build_parser().parse_args(arguments)
    try:
        return _run_command(options)
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        raise
