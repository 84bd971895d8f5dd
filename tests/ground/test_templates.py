"""Templates expand to what was meant, and say what is wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipuenv.ground.templates import (
    escape,
    expand,
    expand_label,
    label_problems,
    placeholders,
    template_problems,
)

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)


@given(st.text())
def test_escaped_text_expands_to_itself(text: str) -> None:
    assert template_problems(escape(text), allowed=()) == []
    assert expand(escape(text), {}) == text


@given(st.lists(st.tuples(st.text(), NAMES, st.text())), st.text())
def test_values_stand_where_their_placeholders_stood(parts: list[tuple[str, str, str]], tail: str) -> None:
    values = {name: value for _, name, value in parts}
    template = "".join(f"{escape(text)}{{{name}}}" for text, name, _ in parts) + escape(tail)
    assert template_problems(template, allowed=values) == []
    assert placeholders(template) == tuple(name for _, name, _ in parts)
    assert expand(template, values) == "".join(text + values[name] for text, name, _ in parts) + tail


@given(st.text(alphabet="{}ab"))
def test_a_template_without_problems_expands_and_one_with_faulty_braces_does_not(template: str) -> None:
    names = dict.fromkeys(placeholders(template), "x")
    if template_problems(template, allowed=names):
        with pytest.raises(ValueError, match="brace itself"):
            expand(template, names)
    elif "" not in names:
        assert expand(template, names) == template.format_map(names)
    else:
        assert expand(template, names).count("x") == len(placeholders(template))


def test_what_is_put_in_is_not_read_again() -> None:
    assert expand("{a}{b}", {"a": "{b}", "b": "}}"}) == "{b}}}"


def test_a_placeholder_without_a_value_is_a_slip_of_the_caller() -> None:
    with pytest.raises(KeyError, match="batch"):
        expand("{batch}", {})


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{thread}",
            "unknown placeholder \"{thread}\". Did you mean 'threads'? Allowed: threads, batch.",
        ),
        ("{}", "unknown placeholder \"{}\". Allowed: threads, batch. Write '{{' and '}}' for braces themselves."),
        ("x{threads", "'{' in column 2 is never closed. Write '{{' for the brace itself."),
        ("threads}", "'}' in column 8 closes nothing. Write '}}' for the brace itself."),
        ("{device-lock}", "'{device-lock}': not here"),
    ],
)
def test_each_fault_of_a_template_is_named(template: str, message: str) -> None:
    refused = {"device-lock": "not here"}
    assert template_problems(template, allowed=["threads", "batch"], refused=refused) == [message]


def test_all_faults_of_a_template_are_named_and_each_once() -> None:
    problems = template_problems("{x} {x} {y} }", allowed=["threads"])
    assert [problem.split(".")[0] for problem in problems] == [
        "'}' in column 13 closes nothing",
        'unknown placeholder "{x}"',
        'unknown placeholder "{y}"',
    ]


def test_a_label_takes_its_value_once() -> None:
    assert label_problems("{}threads") == []
    assert expand_label("{}threads", 16) == "16threads"


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("threads", "wanted '{}' exactly once, for the value; found it 0 times in \"threads\"."),
        ("{}x{}", "wanted '{}' exactly once, for the value; found it 2 times in \"{}x{}\"."),
        ("{{}}", "wanted '{}' exactly once, for the value; found it 0 times in \"{{}}\"."),
        ("{}{threads}", "unknown placeholder \"{threads}\". A label takes only '{}'."),
        ("{}{", "'{' in column 3 is never closed. Write '{{' for the brace itself."),
    ],
)
def test_each_fault_of_a_label_is_named(label: str, message: str) -> None:
    assert label_problems(label) == [message]
