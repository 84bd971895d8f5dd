"""Folded stacks, ``root;frame;leaf weight`` per line: reading any tool's, writing ours, and the order of their lines.

The format has no escapes, so the rules are inferno's (0.12: ``collapse/perf.rs`` writes it, ``flamegraph/merge.rs``
reads it). A frame's kind is a suffix of its name, ``;`` inside a name becomes ``:``, and lines are sorted as bytes,
weight included; that order is also the left-to-right order of every flame graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TextIO

from ipuenv.engine.stacks import ROOT, FrameKind, FrameTree, Label
from ipuenv.ground.errors import UsageError

SUFFIXES = {FrameKind.INLINED: "_[i]", FrameKind.KERNEL: "_[k]", FrameKind.JIT: "_[j]"}
"""What stands behind a frame's name in folded text; the other kinds have no suffix."""

NO_FRAMES = "[no frames]"
"""Stands for an empty stack, which a line cannot express."""

MAX_WEIGHT = 2**64 - 1
"""A larger number is not a weight to inferno (``u64``) and therefore not to us."""

QUOTE_CHARS = 60
"""How much of a bad line an error quotes."""

# Control characters, line and paragraph separators, surrogates, noncharacters: each breaks a line or XML 1.0.
_UNPRINTABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_REPLACEMENT = "\ufffd"
_BOM = b"\xef\xbb\xbf"
_COMMENT = "# "
_KIND_OF_SUFFIX = {suffix: kind for kind, suffix in SUFFIXES.items()}
_SUFFIX_CHARS = 4
_MISLEADS_OPENING = re.compile(r"\A\s|(?<=\A#) ")
_MISLEADS_ENDING = re.compile(r"\s\Z| (?=[0-9]+(?:\.[0-9]*)?\Z)")
_MISLEADS_ALONE = re.compile(r"\A#?\Z")
_MISLEADS = re.compile("|".join(p.pattern for p in (_MISLEADS_OPENING, _MISLEADS_ENDING, _MISLEADS_ALONE)))


def printable(name: str) -> str:
    """The name with U+FFFD for each character that would break a line or is forbidden in XML 1.0; tabs stay."""
    return _UNPRINTABLE.sub(_REPLACEMENT, name)


def label_text(label: Label) -> str:
    """The label as one frame of a folded line, suffix included, before it is known where in a line it will stand."""
    return printable(label.name).replace(";", ":") + SUFFIXES.get(label.kind, "")


def drawn_name(label: Label) -> str:
    """The label as a picture shows it: without annotation, as inferno's ``deannotate`` (``_[w]`` marks wakers)."""
    text = printable(label.name) + SUFFIXES.get(label.kind, "")
    if text.endswith("]") and text[-_SUFFIX_CHARS:-2] == "_[" and text[-2] in "kwij":
        return text[:-_SUFFIX_CHARS]
    return text


def parse_frame(text: str) -> Label:
    """The label that a frame of a folded line stands for; without a known suffix it is native."""
    kind = _KIND_OF_SUFFIX.get(text[-_SUFFIX_CHARS:])
    return Label(text, FrameKind.NATIVE) if kind is None else Label(text[:-_SUFFIX_CHARS], kind)


class Entry(NamedTuple):
    """The lines of a node that stay together when lines are sorted: its own line, or all lines that pass through it."""

    key: str
    node: int
    weight: int
    is_below: bool


class LineOrder:
    """A tree's nodes in the order of its folded lines, without the lines.

    Whole lines are sorted, so a node's own line (``name 5``) and those of its callees (``name;...``) are two entries,
    and a sibling called ``name:x`` or ``name 1x`` sorts between them. Python compares strings by code point, which is
    the order of their UTF-8 bytes.
    """

    def __init__(self, tree: FrameTree) -> None:
        texts = _line_texts(tree)
        self.tree, self.texts = (tree, texts) if len(set(texts)) == len(texts) else _merged(tree, texts)
        self.totals = self.tree.totals()

    def children(self, at_least: float = 0) -> dict[int, list[int]]:
        """Children that have weight by parent, for each parent with a child of weight ``at_least`` and no others."""
        parents, totals = self.tree.tree.parents[1:], self.totals
        least = max(at_least, 1)
        wanted = {parent for parent, total in zip(parents, totals[1:], strict=True) if total >= least}
        children: dict[int, list[int]] = {parent: [] for parent in wanted}
        for node, parent in enumerate(parents, 1):
            if parent in wanted and totals[node]:
                children[parent].append(node)
        return children

    def entries(self, siblings: list[int]) -> list[Entry]:
        """The sorted entries of nodes that share a parent."""
        keys, weights, totals, texts = self.tree.tree.keys, self.tree.weights, self.totals, self.texts
        entries: list[Entry] = []
        for node in siblings:
            own, text = weights[node], texts[keys[node]]
            if own:
                entries.append(Entry(f"{text} {own}", node, own, False))
            if totals[node] > own:
                entries.append(Entry(text + ";", node, totals[node] - own, True))
        entries.sort()
        return entries


def _merged(tree: FrameTree, texts: list[str]) -> tuple[FrameTree, list[str]]:
    """A copy in which labels with one text are one label, whichever was met first, and the copy's texts."""
    chosen: dict[str, Label] = {}
    for text, label in zip(texts, tree.labels, strict=True):
        chosen[text] = max(label, chosen.get(text, label))
    merged = FrameTree(tree.unit)
    labels = [merged.intern(chosen[text]) for text in texts]
    nodes = [ROOT] * len(tree)
    merged.weights[ROOT] = tree.weights[ROOT]
    for node in range(1, len(tree)):
        nodes[node] = merged.child(nodes[tree.tree.parents[node]], labels[tree.tree.keys[node]])
        merged.weights[nodes[node]] += tree.weights[node]
    return merged, list(chosen)


def _line_texts(tree: FrameTree) -> list[str]:
    """Each label's text, made safe where it opens or ends a line.

    A reader trims lines, skips those that start with ``# ``, and takes a number before the weight for a second weight;
    so the character that would mislead it becomes ``_``, which is also what inferno puts for spaces in comm names.
    """
    texts = [label_text(label) for label in tree.labels]
    if not any(map(_MISLEADS.search, texts)):
        return texts
    parents, keys, weights = tree.tree.parents, tree.tree.keys, tree.weights
    opening = {node for node in range(1, len(tree)) if parents[node] == ROOT}
    ending = {node for node in range(1, len(tree)) if weights[node]}
    for nodes, pattern in (
        (opening, _MISLEADS_OPENING),
        (ending, _MISLEADS_ENDING),
        (opening & ending, _MISLEADS_ALONE),
    ):
        for label in {keys[node] for node in nodes}:
            texts[label] = pattern.sub("_", texts[label])
    return texts


def folded_lines(tree: FrameTree) -> Iterator[str]:
    """The tree's lines without line ends, sorted as bytes; stacks of weight 0 are left out."""
    order = LineOrder(tree)
    children = order.children()
    texts, keys = order.texts, order.tree.tree.keys
    path: list[str] = []
    todo = [(0, entry) for entry in reversed(order.entries(children.get(ROOT, [])))]
    if tree.weights[ROOT]:
        todo.append((0, Entry(f"{NO_FRAMES} {tree.weights[ROOT]}", ROOT, tree.weights[ROOT], False)))
        todo.sort(reverse=True)
    while todo:
        depth, entry = todo.pop()
        del path[depth:]
        if entry.is_below:
            path.append(texts[keys[entry.node]])
            todo.extend((depth + 1, child) for child in reversed(order.entries(children[entry.node])))
        else:
            yield ";".join([*path, entry.key])


def write_folded(tree: FrameTree, out: TextIO) -> None:
    """Write the tree's folded lines to a text file, which should be UTF-8."""
    out.writelines(line + "\n" for line in folded_lines(tree))


@dataclass(frozen=True, kw_only=True, slots=True)
class Folded:
    """Folded text that was read: the tree, and how many lines could not be taken as they are."""

    tree: FrameTree
    lines: int
    ignored: int
    fractional: int
    differential: int

    def remarks(self) -> list[str]:
        """What a person should know about the lines, one sentence each; empty when all were plain."""
        counted = [
            (self.ignored, "without a stack and a whole number at the end: ignored"),
            (self.fractional, "with a fractional weight: cut to a whole number"),
            (self.differential, "with two weights: only the last was used"),
        ]
        return [f"{count:,} of {self.lines:,} lines {what}." for count, what in counted if count]


@dataclass(slots=True)
class _Line:
    """One parsed line; ``weight`` is None where inferno would ignore it."""

    stack: str
    weight: int | None
    is_fractional: bool = False
    is_differential: bool = False


def read_folded(data: bytes, *, source: str = "the folded file", unit: str = "samples") -> Folded:
    """Read folded stacks as inferno reads them; equal stacks are added up.

    ``source`` names the data in errors. Bytes that are not UTF-8 become U+FFFD. Raises :class:`UsageError` when no line
    holds a stack.
    """
    tree = FrameTree(unit)
    walk = _Walk(tree)
    lines = ignored = fractional = differential = 0
    first_bad: tuple[int, str] | None = None
    for number, raw in enumerate(data.removeprefix(_BOM).decode("utf-8", "replace").split("\n"), 1):
        text = raw.strip()
        if not text or text.startswith(_COMMENT):
            continue
        lines += 1
        line = _parse_line(text)
        if line.weight is None:
            ignored += 1
            first_bad = first_bad or (number, text)
            continue
        fractional += line.is_fractional
        differential += line.is_differential
        tree.weights[walk.node(line.stack)] += line.weight
    if lines == ignored:
        raise _no_stacks(source, first_bad)
    return Folded(tree=tree, lines=lines, ignored=ignored, fractional=fractional, differential=differential)


class _Walk:
    """Finds the node of a stack, from the last stack's nodes on: neighbours in sorted text share most frames."""

    def __init__(self, tree: FrameTree) -> None:
        self._tree = tree
        self._labels: dict[str, int] = {}
        self._frames: list[str] = []
        self._nodes: list[int] = [ROOT]

    def node(self, stack: str) -> int:
        tree, labels = self._tree, self._labels
        frames = stack.split(";")
        shared = 0
        for ours, theirs in zip(frames, self._frames, strict=False):
            if ours != theirs:
                break
            shared += 1
        nodes = self._nodes[: shared + 1]
        node = nodes[-1]
        for frame in frames[shared:]:
            label = labels.get(frame)
            if label is None:
                label = labels[frame] = tree.intern(parse_frame(frame))
            node = tree.child(node, label)
            nodes.append(node)
        self._frames, self._nodes = frames, nodes
        return node


def _parse_line(text: str) -> _Line:
    """Split a trimmed line into stack and weight, as ``parse_nsamples`` of inferno's ``merge.rs`` does, twice."""
    stack, last = _split_weight(text)
    if last is None or not stack:
        return _Line(text, None)
    rest, first = _split_weight(stack) if stack[-1] in "0123456789." else (stack, None)
    if first is None:
        return _Line(stack, last[0], last[1])
    return _Line(rest, last[0] if rest else None, last[1] or first[1], True)


def _split_weight(text: str) -> tuple[str, tuple[int, bool] | None]:
    """The text before a trailing number and the number, cut to an integer, with whether something was cut off."""
    stack, space, digits = text.rpartition(" ")
    whole, _, fraction = digits.partition(".")
    if not (space and whole.isdigit() and digits.isascii() and (not fraction or fraction.isdigit())):
        return text, None
    whole = whole.lstrip("0") or "0"
    if len(whole) > len(str(MAX_WEIGHT)) or int(whole) > MAX_WEIGHT:
        return text, None
    return stack.rstrip(), (int(whole), bool(fraction.strip("0")))


def _no_stacks(source: str, first_bad: tuple[int, str] | None) -> UsageError:
    expected = "lines like `main;work;step 42`: frames joined by `;`, root first, then a space and a number of samples"
    hint = "Give a file that `ipuenv render --format folded` or inferno's collapse tools wrote."
    if first_bad is None:
        return UsageError(f"{source} holds no folded stack: it is empty", expected=expected, hint=hint)
    number, text = first_bad
    quoted = repr(text if len(text) <= QUOTE_CHARS else text[:QUOTE_CHARS] + "...")
    return UsageError(f"{source} holds no folded stack; line {number} is {quoted}", expected=expected, hint=hint)
