"""Instructions read as nvdisasm reads them: one sample for each of its spellings in our kernels and in a mixed one."""

import re
from pathlib import Path

import pytest

from toolkit.errors import CheckFailedError
from toolkit.native.sass.decode import decode
from toolkit.native.sass.opcodes import OPCODES, SIZED, Pipe

SAMPLES = [
    line.split(" ", 3)
    for line in Path(__file__).with_name("sass_samples.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@pytest.mark.parametrize(("address", "low", "high", "text"), SAMPLES, ids=lambda value: value)
def test_an_instruction_is_what_nvdisasm_says(address, low, high, text):
    at = int(address, 16)
    word = bytes.fromhex(low)[::-1] + bytes.fromhex(high)[::-1]
    guard, name, operands = re.fullmatch(r"(@!?P\w )?([A-Z0-9_.]+)(.*)", text).groups()
    (found,) = decode(word)
    assert found.operation == name.split(".")[0]
    assert found.conditional is (guard is not None or (name == "BRA" and operands.startswith((" P", " !P"))))
    if found.operation in SIZED:
        assert found.width == next((BYTES[part] for part in name.split(".") if part in BYTES), 4)
    if found.operation == "BRA":
        assert at + found.target == int(operands.split()[-1], 16)
    if found.operation == "HMMA":
        assert found.mnemonic == ("HMMA.F32" if ".F32" in name else "HMMA.F16")
        assert found.pipe is Pipe.tensor


def test_the_samples_cover_what_kernels_use():
    sampled = {re.sub(r"^@!?P\w ", "", text).split()[0].split(".")[0] for *_, text in SAMPLES}
    assert {"HMMA", "LDG", "STS", "MUFU", "BAR", "IMAD", "HFMA2", "ATOMG", "BRX", "LDL", "STL"} <= sampled
    assert sampled <= {name for name, _ in OPCODES.values()}


def test_an_opcode_outside_the_table_is_named():
    with pytest.raises(CheckFailedError) as caught:
        decode(bytes(16) + (0x1FF).to_bytes(16, "little"))
    assert caught.value.what == "unknown instruction: opcode 0x000"
    assert caught.value.where == "address 0x0"
