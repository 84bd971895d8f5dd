"""Text that nobody vouches for stays what it is, wherever it stands on a page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ipuenv.front import markdown
from ipuenv.ground.console import printable
from tests.front.reading import HOSTILE, inline, parse, visible

anything = st.text(st.sampled_from("|`\\*_<>[]()#-+=~!$&;:'\" \n\tab1.)") | st.characters(), max_size=30).filter(
    str.strip
)


@settings(max_examples=150, deadline=None)
@given(value=anything)
@example(value=HOSTILE)
@example(value="1. x")
@example(value="12) x")
@example(value="---")
@example(value="===")
@example(value="+ x")
@example(value="    code")
@example(value="\\")
@example(value="a\\|b")
@example(value="# x #")
@pytest.mark.parametrize("escape", [markdown.text, markdown.code])
def test_text_stays_what_it_is_wherever_it_stands(escape: Any, value: str) -> None:
    shown = printable(value).strip() if escape is markdown.text else printable(value)
    escaped = escape(value)
    assert "\n" not in escaped
    for page in (
        f"start {escaped} end",
        f"* {escaped}",
        f"# {escaped}",
        f"before\n{escaped}",
        f"x: {escaped}",
        escaped,
    ):
        tokens = parse(page)
        blocks = {token.type for token in tokens} - {"inline"}
        assert blocks <= {
            f"{kind}_{end}"
            for kind in ("paragraph", "bullet_list", "list_item", "heading")
            for end in ("open", "close")
        }
        assert all(token.content in ("<code>", "</code>") for token in inline(tokens) if token.type == "html_inline")
        text = "".join(visible(token.children or []) for token in tokens).removeprefix("start ").removesuffix(" end")
        text = text.removeprefix("before<softbreak>").removeprefix("x: ").strip()
        assert text == shown.strip()
    table = markdown.table(["name", "value"], [[escaped, "1"], ["2", escaped]])
    cells = [visible(token.children or []) for token in parse(table) if token.type == "inline"]
    assert [cell.strip() for cell in cells] == ["name", "value", shown.strip(), "1", "2", shown.strip()]


@given(script=st.text(st.sampled_from("`~ab\n "), max_size=40).filter(lambda text: not text.endswith("\n")))
def test_a_script_stays_whole_in_its_fence(script: str) -> None:
    fences = [token for token in parse(f"x\n\n{markdown.fence(script)}\n\ny") if token.type == "fence"]
    assert [(token.info, token.content) for token in fences] == [("bash", f"{script}\n")]


@pytest.mark.parametrize(
    "path", ["a b.svg", "a)b(c.svg", "javascript:x", "caf\u00e9.svg", "a%20b", "a\\b", "<x>", "a\udce9"]
)
def test_a_link_leads_to_a_file_below(path: str) -> None:
    tokens = list(inline(parse(markdown.link(markdown.code(path), path))))
    assert tokens[0].type == "link_open"
    assert re.fullmatch(r"[A-Za-z0-9%._~/-]+", str(tokens[0].attrGet("href")))


def test_long_names_keep_both_ends() -> None:
    short = markdown.shortened("a" * 300 + "b" * 300)
    assert len(short) == markdown.LONGEST_NAME + 1
    assert short.startswith("aaa")
    assert short.endswith("bbb")
    assert markdown.shortened("a" * 200) == "a" * 200
