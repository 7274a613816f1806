"""The command line: ``webgpu-torch``, also ``python -m webgpu_torch``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from .serve import add_options

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def _add_command(commands: Commands, name: str, words: str, text: str) -> argparse.ArgumentParser:
    """Add a command on a model; ``words`` says what stands on the line beside options, the model first."""
    command = commands.add_parser(
        name, help=text, usage=f"webgpu-torch {name} MODEL {words} [options]".replace("  ", " ")
    )
    command.add_argument(
        "words", nargs="*", help="the model, unless --model names it, and what it is given", metavar="WORD"
    )
    command.add_argument("--model", help="a folder with a checkpoint, or an id on the Hugging Face hub")
    command.add_argument("--device", help="cpu, webgpu or webgpu:N; the GPU if there is a real one")
    command.add_argument("--dtype", default="auto", help="float32, float16, bfloat16, or auto for the checkpoint's own")
    command.add_argument("--seed", type=int, default=0, help="starts the random numbers")
    command.add_argument(
        "--attn",
        choices=("sdpa", "eager", "webgpu_torch"),
        help="have transformers compute the model, attention like this",
    )
    _add_json(command)
    return command


def _add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON object a line instead of text")


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
    for each in (build, serve):
        each.add_argument("--docs", help="a folder of built documentation that becomes a part of the site")
        each.add_argument("--model", help="the folder of a language model that the playground lets write")
        _add_json(each)


class _Version(argparse.Action):
    """Prints the version; asking the distribution for it takes time, so only when somebody wants to know."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"webgpu-torch {version('webgpu-torch-cli')}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="webgpu-torch", description="PyTorch's API on any GPU that speaks WebGPU.",
        epilog="Exit status: 0 done, 1 it could not be done, 2 the command line is wrong, 130 interrupted.",
    )  # fmt: skip
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="list backends, devices, limits, versions and the origin of each plugin")
    info.add_argument("--numerics", action="store_true", help="measure the accuracy of the adapter's scalar functions")
    _add_json(info)
    run = commands.add_parser("run", help="run a PyTorch program with this library in torch's place")
    run.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module, not a file")
    run.add_argument("script", help="the program's file")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program receives")
    generate = _add_command(commands, "generate", "PROMPT", "continue a text")
    generate.add_argument("--prompt", help="the text, where it does not stand after the model")
    _add_text_options(generate)
    chat = _add_command(commands, "chat", "", "talk with a model; an empty line ends it")
    chat.add_argument("--system", help="the instruction that the conversation starts with")
    _add_text_options(chat)
    _add_command(commands, "embed", "TEXT...", "print the vectors of texts as JSON, one line each")
    classify = _add_command(
        commands, "classify", "TEXT-OR-IMAGE...", "print the classes of texts or image files, the likeliest first"
    )
    classify.add_argument("--top", type=int, default=5, help="how many classes to print")
    _add_command(commands, "transcribe", "FILE...", "write down what is said in WAV files")
    bench = _add_command(commands, "bench", "", "measure how fast a decoder reads and writes, and its memory")
    bench.add_argument("--prompt-tokens", type=int, default=512)
    bench.add_argument("--new-tokens", type=int, default=64)
    bench.add_argument("--batch-size", type=int, default=1)
    bench.add_argument("--quantize", help="int8, int4, nf4 or fp8: weights in so few bits")
    _add_web(commands.add_parser("web", help="the library in a browser: playground, conformance, benchmarks"))
    serve = commands.add_parser("serve", help="answer requests for a model over HTTP, as OpenAI's interface does")
    add_options(serve)
    _add_json(serve)
    image = _add_command(commands, "image", "PROMPT", "draw an image from a text")
    image.add_argument("--prompt", help="the text, where it does not stand after the model")
    image.add_argument("--negative-prompt")
    image.add_argument("--steps", type=int, default=30)
    image.add_argument("--guidance", type=float, default=7.5)
    image.add_argument("--width", type=int)
    image.add_argument("--height", type=int)
    image.add_argument("--output", default="image.png")
    completion = commands.add_parser("completion", help="print what makes a shell complete commands and options")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


def _sort_words(options: argparse.Namespace) -> None:
    """Tell the model, the prompt and the inputs among the words of a command on a model.

    Raises:
        SystemExit: something is missing, or too much; with status 2, as for other mistakes of the line.
    """
    words = list(options.words)
    model = options.model or (words.pop(0) if words else None)
    if model is None:
        _refuse(options, f"which model? webgpu-torch {options.command} MODEL …, or --model MODEL")
    options.model = model
    if options.command in ("generate", "image"):
        given = [*words, *([options.prompt] if options.prompt is not None else [])]
        if len(given) != 1:
            _refuse(options, f'one prompt is needed, got {len(given)}; put it in quotes: MODEL "…"')
        options.prompt = given[0]
    elif options.command in ("chat", "bench") and words:
        _refuse(options, f"{options.command} takes no text on the command line, got {words[0]!r}")
    elif options.command not in ("chat", "bench") and not words:
        _refuse(options, f"{options.command} needs something to work on, after the model")
    options.inputs = words


def _refuse(options: argparse.Namespace, message: str) -> NoReturn:
    print(f"webgpu-torch {options.command}: error: {message}", file=sys.stderr)
    raise SystemExit(2)


def _run_command(options: argparse.Namespace) -> int:
    if options.command == "info":
        from .info import info

        return info(options)
    if options.command == "completion":
        from .completion import SHELLS

        print(SHELLS[options.shell](build_parser()), end="")
        return 0
    if options.command == "run":
        from .run import run_program

        return run_program(options.script, options.arguments, as_module=options.module)
    if options.command == "web":
        from .web import run_web

        return run_web(options)
    from .problems import explained

    if options.command == "serve":
        from .serve import run_server

        with explained(options):
            return run_server(options)
    _sort_words(options)
    with explained(options):
        if options.command == "image":
            from .image import draw

            return draw(options)
        if options.command == "bench":
            from .bench import bench

            return bench(options)
        if options.command == "transcribe":
            from .transcribe import transcribe

            return transcribe(options)
        from . import text

        return getattr(text, options.command)(options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 done, 1 it could not be done, 2 the line is wrong, 130 interrupted."""
    options = build_parser().parse_args(arguments)
    try:
        return _run_command(options)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        raise
