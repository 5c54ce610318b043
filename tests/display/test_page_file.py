"""A page is written where it was asked for, or refused with a place that works; nobody else's file is lost."""

import os
from pathlib import Path

import pytest

from toolkit.display.page_file import write_page
from toolkit.errors import ConfigurationError

PAGE = "<!DOCTYPE html>\n<html></html>\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return here


def write(name) -> None:
    write_page("html", str(name), PAGE)


def test_a_new_file_and_an_earlier_page(folder):
    for text in (None, "<!DOCTYPE html>\nold", ""):
        if text is not None:
            Path("plan.html").write_text(text)
        write("plan.html")
        assert Path("plan.html").read_text() == PAGE
        assert [*Path().iterdir()] == [Path("plan.html")]
    Path("link.html").symlink_to("plan.html")
    write("link.html")
    assert Path("link.html").is_symlink(), "the page that it points to was replaced"


@pytest.mark.parametrize("name", ["notes.md", "recipe.yaml", "almost.html"])
def test_a_file_that_is_no_page_is_left_as_it_is(name):
    Path(name).write_text("<!doctype HTML somebody's own")
    with pytest.raises(ConfigurationError, match="cannot be written") as caught:
        write(name)
    assert caught.value.why == "there is a file that is no page of HTML, and it is left as it is"
    assert Path(name).read_text() == "<!doctype HTML somebody's own"


def places(folder: Path) -> dict[str, str]:
    """Names where no page can be, each with the reason."""
    (folder / "folder").mkdir()
    (folder / "file").write_text("")
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    return {
        "none/plan.html": "No such file or directory",
        "folder": "a folder has that name",
        str(folder): "a folder has that name",
        "file/plan.html": "Not a directory",
        "pipe": "it is no regular file",
        "/dev/null": "it is no regular file",
        "loop": "a link that leads nowhere has that name",
        "a" * 300: "File name too long",
        "~nobody-has-this/a.html": "html='~nobody-has-this/a.html' begins with a user that this machine does not know",
        "a\0b.html": r"html='a\x00b.html' holds a null character, which no path does",
        "": "it names no file",
    }


def test_the_fix_names_a_place_that_works(folder):
    for name, why in places(folder).items():
        with pytest.raises(ConfigurationError) as caught:
            write(name)
        assert (caught.value.where, caught.value.why) == (f"html={name}", why)
        option, _, place = caught.value.fix.partition("=")
        assert option == "html"
        write(place)
        assert Path(place).read_text() == PAGE
        Path(place).unlink()


def test_a_full_disk_keeps_the_earlier_page(folder, monkeypatch):
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    write("plan.html")
    monkeypatch.setattr("toolkit.storage.disk.os.write", full)
    with pytest.raises(ConfigurationError) as caught:
        write_page("html", "plan.html", PAGE + "more")
    assert caught.value.why == "No space left on device"
    assert Path("plan.html").read_text() == PAGE
    assert [*Path().iterdir()] == [Path("plan.html")]


def test_without_any_place_the_page_can_still_be_printed(folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # as on a disk that is mounted for reading only
    with pytest.raises(ConfigurationError) as caught:
        write(folder)
    assert caught.value.fix == "output=html prints the page"
