"""Folded stacks: what is read, what is written, and that nothing is lost between."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipuenv.engine.folded import NO_FRAMES, folded_lines, read_folded, write_folded
from ipuenv.engine.layout import lay_out
from ipuenv.engine.stacks import ROOT, FrameKind, FrameTree, Label
from ipuenv.ground.errors import UsageError

AWKWARD = "ab:; 12.5#_[]ik\t\n\r\x00\x7f\x85\u2028\ud800é💡<&"
NAMES = st.text(AWKWARD, max_size=6) | st.sampled_from(
    ["foo", "foo::bar", "foo 12", "foo_12", "[u8; 8]", "[u8: 8]", "# a"]
)
LABELS = st.builds(Label, NAMES, st.sampled_from(FrameKind))
STACKS = st.lists(st.tuples(st.lists(LABELS, min_size=1, max_size=5), st.integers(0, 20)), min_size=1, max_size=12)


def tree_of(stacks: list[tuple[list[Label], int]]) -> FrameTree:
    tree = FrameTree()
    for stack, weight in stacks:
        tree.add(stack, weight)
    return tree


def native(*names: str) -> list[Label]:
    return [Label(name, FrameKind.NATIVE) for name in names]


def lines_of(*stacks: tuple[list[Label], int]) -> list[str]:
    return list(folded_lines(tree_of(list(stacks))))


def text_of(tree: FrameTree) -> str:
    out = io.StringIO()
    write_folded(tree, out)
    return out.getvalue()


def weights(data: str) -> dict[tuple[str, ...], int]:
    """Own weight by stack, names with their kind in front where it is not native."""
    tree = read_folded(data.encode()).tree

    def shown(label: Label) -> str:
        return label.name if label.kind is FrameKind.NATIVE else f"{label.kind}={label.name}"

    return {tuple(map(shown, tree.stack(node))): tree.weights[node] for node in range(len(tree)) if tree.weights[node]}


class TestRead:
    def test_equal_stacks_are_added_up(self) -> None:
        assert weights("a;b 3\na;c 1\na;b 4\na 2\n") == {("a", "b"): 7, ("a", "c"): 1, ("a",): 2}

    def test_suffixes_are_kinds(self) -> None:
        assert weights("a;b_[i];c_[k];d_[j];e_[w];f_[x] 1") == {
            ("a", "inlined=b", "kernel=c", "jit=d", "e_[w]", "f_[x]"): 1
        }

    @pytest.mark.parametrize(
        ("line", "stack", "weight"),
        [
            ("  a;b 3  ", ("a", "b"), 3),
            ("a;;b 3\r", ("a", "", "b"), 3),
            (";b 3", ("", "b"), 3),
            ("a; 3", ("a", ""), 3),
            ("a ; b 3", ("a ", " b"), 3),
            ("worker 7;<T as Fn(u8) -> u8>::call 3", ("worker 7", "<T as Fn(u8) -> u8>::call"), 3),
            ("a 0018446744073709551615", ("a",), 2**64 - 1),
        ],
    )
    def test_a_line_is_split_as_inferno_splits_it(self, line: str, stack: tuple[str, ...], weight: int) -> None:
        assert weights(line) == {stack: weight}

    @pytest.mark.parametrize(
        "line", ["a", "a;b", "42", "a 18446744073709551616", "a 1e3", "a -3", "a ²", "a " + "9" * 5000]
    )
    def test_a_line_without_a_weight_is_ignored_and_counted(self, line: str) -> None:
        folded = read_folded(f"a;b 1\n{line}\n".encode())
        assert (folded.ignored, folded.lines, folded.tree.total) == (1, 2, 1)
        assert folded.remarks() == ["1 of 2 lines without a stack and a whole number at the end: ignored."]

    def test_empty_lines_and_comments_are_not_lines(self) -> None:
        folded = read_folded(b"# a comment 3\n\n   \na 1\n#a 2\n")
        assert (folded.lines, folded.ignored, folded.tree.total) == (2, 0, 3)

    def test_fractions_are_cut_off_and_counted_unless_zero(self) -> None:
        folded = read_folded(b"a 1.9\nb 2.0\nc 3.\nd .5\n")
        assert folded.tree.total == 6
        assert (folded.fractional, folded.ignored) == (1, 1)

    def test_of_two_weights_the_last_is_used(self) -> None:
        folded = read_folded(b"a;b 10 4\na;c 10.5 3\na;d 3\na;e99 1\n")
        assert (folded.tree.total, folded.differential, folded.fractional) == (11, 2, 1)
        assert {label.name for label in folded.tree.labels} == {"a", "b", "c", "d", "e99"}
        assert folded.remarks()[-1] == "2 of 4 lines with two weights: only the last was used."

    def test_bytes_that_are_not_utf8_and_a_byte_order_mark(self) -> None:
        assert weights("\ufeffa 1") == {("a",): 1}
        assert read_folded(b"a\xff 1").tree.labels == [Label("a\ufffd", FrameKind.NATIVE)]

    def test_a_plain_file_needs_no_remark(self) -> None:
        assert read_folded(b"a;b 1\n").remarks() == []


class TestErrors:
    @pytest.mark.parametrize("data", [b"", b"\n \n", b"# only a comment 3\n"])
    def test_an_empty_file_is_a_usage_error(self, data: bytes) -> None:
        with pytest.raises(UsageError, match="empty") as error:
            read_folded(data)
        assert error.value.expected
        assert error.value.hint

    def test_a_file_without_a_stack_is_quoted_with_its_line_number(self) -> None:
        with pytest.raises(UsageError, match=r"notes\.txt holds no folded stack; line 3 is 'xx*\.\.\.'") as error:
            read_folded(b"\n# c\n" + b"x" * 5000 + b"\nmore\n", source="notes.txt")
        assert len(error.value.what) < 150

    def test_a_binary_file_does_not_reach_the_terminal(self) -> None:
        with pytest.raises(UsageError) as error:
            read_folded(b"PERFILE2\x1b[31m\x00\x01")
        assert "\x1b" not in error.value.what


class TestWrite:
    def test_kinds_with_a_suffix(self) -> None:
        stack = [Label(kind.value, kind) for kind in FrameKind]
        assert lines_of((stack, 2)) == ["comm;native;inlined_[i];kernel_[k];jit_[j];unknown;elided 2"]

    def test_lines_are_sorted_as_bytes_with_their_weights(self) -> None:
        stacks = [("a",), ("a", "b"), ("a", "b", "x"), ("a", "b:c"), ("a", "b 1c"), ("a", "b\u00e9"), ("a", "b💡")]
        lines = lines_of(*((native(*stack), 10 + number) for number, stack in enumerate(stacks)))
        assert lines == sorted(lines, key=str.encode)
        assert len(lines) == len(stacks)

    def test_a_semicolon_in_a_name_becomes_a_colon(self) -> None:
        assert lines_of((native("main", "<[u8; 8]>::into"), 1)) == ["main;<[u8: 8]>::into 1"]

    def test_what_breaks_a_line_is_replaced(self) -> None:
        assert lines_of((native("a\nb", "c\r\x0b\u2028\ud800d", "e\x85\x00"), 1)) == [
            "a�b;c����d;e�� 1".replace("�", "\ufffd")
        ]

    def test_what_would_be_taken_for_a_weight_or_a_comment_is_not(self) -> None:
        assert lines_of((native("# a", "b 12"), 3)) == ["#_a;b_12 3"]
        assert lines_of((native(" a", "b "), 3)) == ["_a;b_ 3"]
        assert lines_of((native(""), 3)) == ["_ 3"]
        assert lines_of((native("a", "b 12", "c"), 3)) == ["a;b 12;c 3"]

    def test_a_name_that_alone_makes_no_line(self) -> None:
        assert lines_of((native(""), 3), (native("#", "a"), 2)) == ["#;a 2", "_ 3"]
        assert lines_of((native("#"), 3), (native("", "#"), 2)) == [";_ 2", "_ 3"]

    def test_an_empty_stack_keeps_its_weight(self) -> None:
        assert lines_of(([], 3), (native("Z"), 1), (native("a"), 1)) == ["Z 1", f"{NO_FRAMES} 3", "a 1"]

    def test_stacks_without_weight_are_left_out(self) -> None:
        assert lines_of((native("a", "b"), 0), (native("a"), 1)) == ["a 1"]

    def test_a_stack_of_ten_thousand_frames(self) -> None:
        lines = lines_of((native(*["f"] * 10_000), 1), (native(*["f"] * 9_999), 2))
        assert [line.count(";") for line in lines] == [9_998, 9_999]


class TestThereAndBack:
    @given(STACKS)
    def test_what_was_written_is_read_back_as_the_same_lines(self, stacks: list[tuple[list[Label], int]]) -> None:
        tree = tree_of(stacks)
        text = text_of(tree)
        if not tree.total:
            assert text == ""
            return
        folded = read_folded(text.encode())
        assert (folded.ignored, folded.differential) == (0, 0)
        assert folded.tree.total == tree.total
        assert text_of(folded.tree) == text

    @given(STACKS.filter(lambda stacks: any(weight for _, weight in stacks)))
    def test_the_picture_is_the_same(self, stacks: list[tuple[list[Label], int]]) -> None:
        tree = tree_of(stacks)
        read = read_folded(text_of(tree).encode()).tree
        ours, theirs = lay_out(tree, 0), lay_out(read, 0)
        assert [frame[1:] for frame in ours.frames] == [frame[1:] for frame in theirs.frames]

    @given(STACKS)
    def test_lines_are_sorted_and_whole(self, stacks: list[tuple[list[Label], int]]) -> None:
        text = text_of(tree_of(stacks))
        lines = text.splitlines()
        assert lines == sorted(lines, key=str.encode)
        assert len(set(lines)) == len(lines) == text.count("\n")
        assert all(re.fullmatch(r"\S(.*\S)? [1-9][0-9]*", line) for line in lines)

    @given(
        st.lists(
            st.tuples(st.lists(st.sampled_from(["a", "b", "c::d", "e"]), min_size=1), st.integers(1, 9)), min_size=1
        )
    )
    def test_plain_names_come_back_as_the_same_stacks(self, stacks: list[tuple[list[str], int]]) -> None:
        tree = tree_of([(native(*names), weight) for names, weight in stacks])
        expected: dict[tuple[str, ...], int] = {}
        for names, weight in stacks:
            expected[tuple(names)] = expected.get(tuple(names), 0) + weight
        assert weights(text_of(tree)) == expected
        assert tree.weights[ROOT] == 0
