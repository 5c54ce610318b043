"""Small libraries and altered wheels, made for one fault each."""

import shutil
import subprocess
import zipfile
from dataclasses import replace

import pytest

from toolkit.native import container
from toolkit.native.check.wheel import Wheel, record_entry

LIBRARY = "toolkit/native/volta_native.so"
ASSEMBLY = """
    .section .volta.device, "a", @progbits
    .balign 16
    .incbin "{path}"
    .section .note.GNU-stack, "", @progbits
"""


def altered(wheel, folder, changes, record=None):
    """A copy of a wheel with members replaced, added or (None) removed, and a RECORD that fits, apart from `record`."""
    source = Wheel.read(wheel)
    members = {**source.members, **changes}
    members = {name: data for name, data in members.items() if data is not None}
    book = f"{source.dist_info}/RECORD"
    entries = {name: ",".join(record_entry(data)) for name, data in members.items() if name != book}
    entries.update(record or {})
    lines = [f"{name},{entry}" for name, entry in sorted(entries.items())]
    members[book] = ("\n".join([*lines, f"{book},,"]) + "\n").encode()
    target = folder / wheel.name
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


def entries_of(wheel):
    """The device code entries of a wheel's library."""
    image = Wheel.read(wheel).images[LIBRARY]
    return container.unpack(image.section(container.SECTION))


def changed(entries, name, **values):
    """The entries with one of them changed: NAME.cubin, NAME.ptx, or the manifest."""
    wanted, _, kind = name.partition(".")
    return [
        replace(entry, **values)
        if entry.name == wanted and entry.kind.name.lower().startswith(kind or "manifest")
        else entry
        for entry in entries
    ]


def library(folder, entries=(), code="int volta_sample = 1;", flags=()):
    """The bytes of a small shared library with a device code container."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler here: apt-get install gcc")
    source, assembly, blob, target = (folder / name for name in ("a.c", "b.S", "c.volta", "d.so"))
    source.write_text(code)
    blob.write_bytes(container.pack(entries))
    assembly.write_text(ASSEMBLY.format(path=blob) if entries else "")
    command = ["gcc", "-shared", "-fPIC", "-O1", "-nostartfiles", "-o", target, source, assembly, *flags]
    subprocess.run(command, check=True, cwd=folder)
    return target.read_bytes()


def stub(folder, soname):
    """Linker flags for a library of that name, which exists here alone."""
    source = folder / "stub.c"
    source.write_text("int stub_symbol(void) { return 1; }")
    command = ["gcc", "-shared", "-fPIC", "-nostartfiles", f"-Wl,-soname,{soname}", "-o", folder / soname, source]
    subprocess.run(command, check=True)
    return ["-Wl,--no-as-needed", folder / soname]


def fat_binary(*targets):
    """Bytes of a `.nv_fatbin` section that carries (kind, arch) objects; kind 1 is PTX, 2 is a cubin."""
    body = b""
    for kind, arch in targets:
        payload = b"code" * 4
        header = bytearray(64)
        header[0:2] = kind.to_bytes(2, "little")
        header[4:8] = (64).to_bytes(4, "little")
        header[8:16] = len(payload).to_bytes(8, "little")
        header[28:32] = arch.to_bytes(4, "little")
        body += bytes(header) + payload
    return (
        b"\x50\xed\x55\xba"
        + (1).to_bytes(2, "little")
        + (16).to_bytes(2, "little")
        + len(body).to_bytes(8, "little")
        + body
    )


def foreign_wheel(folder, libraries):
    """A wheel that is not ours, with libraries that carry device code for the given (kind, arch) targets."""
    members = {}
    for name, targets in libraries.items():
        (folder / "fat.bin").write_bytes(fat_binary(*targets))
        assembly = (
            f'__asm__(".section .nv_fatbin,\\"a\\"\\n.incbin \\"{folder}/fat.bin\\"\\n.text\\n");' if targets else ""
        )
        members[name] = library(folder, code=f"{assembly} int sample = 1;")
    base = folder / "other-1.0-py3-none-manylinux_2_31_x86_64.whl"
    with zipfile.ZipFile(base, "w") as archive:
        archive.writestr("other-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
        archive.writestr("other-1.0.dist-info/WHEEL", "Tag: py3-none-manylinux_2_31_x86_64\n")
        archive.writestr("other-1.0.dist-info/RECORD", "")
    out = folder / "out"
    out.mkdir()
    return altered(base, out, members)
