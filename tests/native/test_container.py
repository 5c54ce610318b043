import pytest

from toolkit.errors import CheckFailedError
from toolkit.native.container import Entry, Kind, pack, unpack

ENTRIES = (
    Entry("manifest", Kind.MANIFEST, 0, b"{}"),
    Entry("a", Kind.CUBIN, 70, b"x" * 33),
    Entry("a", Kind.PTX, 70, b""),
)


def test_what_is_packed_comes_back_at_multiples_of_sixteen():
    data = pack(ENTRIES)
    assert unpack(data) == ENTRIES
    assert data.index(b"xxx") % 16 == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the device code container has no VOLTADEV header"),
        (b"ELFELFELF" * 9, "the device code container has no VOLTADEV header"),
        (pack(ENTRIES)[:100], "the device code container is cut short"),
        (pack(ENTRIES)[:-20], "the device code container is cut short inside a"),
        (pack(ENTRIES).replace(b"xxxx", b"yyyy", 1), "the device code of a does not match its SHA-256"),
        (
            pack(ENTRIES).replace(b"\1", b"\2", 1),
            "the device code container has version 2; this toolkit reads version 1",
        ),
    ],
)
def test_a_damaged_container_is_named(data, message):
    with pytest.raises(CheckFailedError) as caught:
        unpack(data)
    assert caught.value.what == message


def test_a_name_that_does_not_fit():
    with pytest.raises(ValueError, match=r"^name of a device file is longer than 39 bytes: n{40}$"):
        pack([Entry("n" * 40, Kind.PTX, 70, b"")])
