"""Files that a person wrote: what keeps them from being read, and the words in which it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipuenv.ground.errors import UsageError
from ipuenv.ground.profile_errors import (
    FileError,
    Problem,
    ProfileError,
    load_toml,
    nearest,
    quoted,
    toml_path,
    unknown,
)


def line(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(ProfileError) as caught:
        load_toml(path, file="profiles/x.toml")
    return str(caught.value)


# -- files that are no TOML -------------------------------------------------------------------------------------------


def test_broken_toml_is_named_by_line_and_column(tmp_path: Path) -> None:
    assert line(tmp_path, b"a = 1\nb = = 2") == "profiles/x.toml: line 2, column 5: not TOML: Invalid value"


def test_a_table_that_is_given_twice_is_named_by_its_line(tmp_path: Path) -> None:
    assert line(tmp_path, b"[a]\n\n[a]\n").startswith("profiles/x.toml: line 3, column ")


def test_text_that_is_not_utf_8_is_named_by_its_line(tmp_path: Path) -> None:
    assert line(tmp_path, b"a = 1\nb = '\xff'") == "profiles/x.toml: line 2: not UTF-8, which TOML has to be"


@pytest.mark.parametrize("content", [b"a = " + b"[" * 100_000, b"a = " + b"1" * 10_000])
def test_toml_beyond_what_python_reads_is_no_traceback(tmp_path: Path, content: bytes) -> None:
    assert "TOML" in line(tmp_path, content)


def test_a_file_that_cannot_be_read_is_named_with_a_next_step(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_toml(tmp_path / "x.toml", file="profiles/x.toml")
    assert caught.value.what == "profiles/x.toml: cannot be read: No such file or directory"
    assert caught.value.hint == "correct profiles/x.toml, then run the same command again"
    assert caught.value.exit_code == 2


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1")
    assert load_toml(path, file="x") == {"a": 1}


# -- the words of messages --------------------------------------------------------------------------------------------


def test_paths_read_like_toml() -> None:
    assert toml_path(("run", "args", 3)) == "run.args[3]"
    assert toml_path(("views", "my view", "a.b")) == 'views."my view"."a.b"'
    assert toml_path(()) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", '"a\\nb"'),
        ("a\u2028b", '"a\\u2028b"'),
        ("a\x9bb", '"a\\x9bb"'),
        (True, "true"),
        ([1, "x"], '[1, "x"]'),
        ("x" * 100, '"' + "x" * 58 + "…"),
    ],
)
def test_a_quoted_value_stays_on_one_short_line(value: object, text: str) -> None:
    assert quoted(value) == text


def test_the_nearest_spelling_looks_through_case_and_dashes() -> None:
    allowed = ["image-width", "min-width"]
    assert nearest("IMAGE_WIDTH", allowed) == "image-width"
    assert nearest("frequency", allowed) is None


def test_long_lists_of_choices_are_cut() -> None:
    text = unknown("key", "zzz", [f"key{number}" for number in range(25)])
    assert text.endswith("key18, key19 and 5 more.")
    assert unknown("axis", "x", []) == "unknown axis. None is allowed here."


def test_a_problem_of_the_file_itself_has_no_path() -> None:
    assert str(FileError("f.toml", [Problem((), "is odd"), Problem(("a", 0), "too")])) == (
        "f.toml: is odd\nf.toml: a[0]: too"
    )
