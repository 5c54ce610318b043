"""Reads command lines as vLLM's own server does, on a V100: JSON lists of arguments in, what became of each out."""

import json
import sys
from dataclasses import asdict, is_dataclass

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser


def plain(value):
    """What JSON cannot hold, as its fields or its text."""
    return asdict(value) if is_dataclass(value) else str(value)


parser = make_arg_parser(FlexibleArgumentParser())


def read(argv):
    """The server's arguments, and those of them that reach the engine."""
    args = parser.parse_args(argv)
    validate_parsed_serve_args(args)
    return {**vars(args), **vars(AsyncEngineArgs.from_cli_args(args))}


print(json.dumps([read(argv) for argv in json.loads(sys.argv[1])], default=plain))
