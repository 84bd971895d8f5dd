"""Views: what they show, and that none of them gains or loses a sample."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipuenv.engine import views
from ipuenv.engine.folding import StackTree
from ipuenv.engine.stacks import ROOT, Frame, FrameKind, PrefixTree
from ipuenv.engine.symbolize import LocationTable
from ipuenv.engine.views import ELIDED, View, names_to_match

WORK = View(name="work", elide=("rayon::*", "rayon_core::*", "crossbeam_*"))


def native(name: str) -> Frame:
    return Frame(name, FrameKind.NATIVE, name, "program")


def inlined(name: str) -> Frame:
    return Frame(name, FrameKind.INLINED, name, "program")


def stack_tree(stacks: dict[tuple[tuple[Frame, ...], ...], int]) -> StackTree:
    """A tree of stacks given as locations, each a tuple of frames, outermost first."""
    table, tree = LocationTable(), PrefixTree()
    weights = [0]
    for stack, weight in stacks.items():
        node = ROOT
        for location in stack:
            node = tree.child(node, table.location(location))
            weights.extend([0] * (len(tree) - len(weights)))
        weights[node] += weight
    nodes = np.zeros(0, np.int32)
    return StackTree(
        table=table,
        tree=tree,
        samples=weights,
        periods=[weight * 1000 for weight in weights],
        nodes=nodes,
        times=np.zeros(0, np.uint64),
        tids=np.zeros(0, np.int64),
    )


def drawn(stacks: StackTree, view: View) -> dict[str, int]:
    """Weights by names alone: a function and the same one inlined are two frames of one name."""
    tree = views.draw(stacks, view)
    found: Counter[str] = Counter()
    for node, weight in enumerate(tree.weights):
        if weight:
            found[";".join(label.name for label in tree.stack(node))] += weight
    return dict(found)


COMM = (Frame("worker", FrameKind.COMM, "worker", ""),)
MAIN = (native("main"), inlined("run"))
HELPER = (native("rayon::helper"),)
JOIN = (native("rayon_core::join"), inlined("user::closure"))
LEAF = (native("user::leaf"),)


def test_full_shows_inlined_frames_and_functions_does_not() -> None:
    stacks = stack_tree({(COMM, MAIN, LEAF): 3, (COMM, MAIN): 2})
    assert drawn(stacks, views.FULL) == {"worker;main;run;user::leaf": 3, "worker;main;run": 2}
    assert drawn(stacks, views.FUNCTIONS) == {"worker;main;user::leaf": 3, "worker;main": 2}


def test_elided_frames_vanish_above_user_code_however_deep_they_recur() -> None:
    stacks = stack_tree({(COMM, MAIN, *[HELPER] * depth, LEAF): 1 for depth in range(20)})
    assert drawn(stacks, WORK) == {"worker;main;run;user::leaf": 20}


def test_a_stretch_of_elided_frames_at_the_leaf_becomes_one_elided_leaf() -> None:
    stacks = stack_tree({(COMM, MAIN, HELPER, HELPER): 4, (COMM, MAIN): 1, (COMM, HELPER): 2})
    assert drawn(stacks, WORK) == {"worker;main;run;[elided]": 4, "worker;main;run": 1, "worker;[elided]": 2}


def test_user_code_inlined_into_an_elided_function_stays() -> None:
    stacks = stack_tree({(COMM, JOIN): 5, (COMM, JOIN, HELPER): 2})
    assert drawn(stacks, WORK) == {"worker;user::closure": 5, "worker;user::closure;[elided]": 2}


def test_threads_and_nameless_frames_are_never_elided() -> None:
    comm = (Frame("rayon::pool", FrameKind.COMM, "", ""),)
    unknown = (Frame("[rayon::so]", FrameKind.UNKNOWN, "", ""),)
    stacks = stack_tree({(comm, unknown): 1})
    assert drawn(stacks, View(name="work", elide=("*rayon*",))) == {"rayon::pool;[rayon::so]": 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rayon::iter::map", ("rayon::iter::map",)),
        (
            "<rayon::vec::IntoIter<T> as core::iter::Iterator>::next",
            ("rayon::vec::IntoIter<T>::next", "core::iter::Iterator::next"),
        ),
        ("<&mut rayon::Drain as Drop>::drop", ("rayon::Drain::drop", "Drop::drop")),
        ("<rayon::job::StackJob<L,F,R>>::run", ("rayon::job::StackJob<L,F,R>::run",)),
        ("<Box<dyn Fn() -> T> as rayon::Job>::execute", ("Box<dyn Fn() -> T>::execute", "rayon::Job::execute")),
        ("<A<<B as C>::D> as rayon::E>::f", ("A<<B as C>::D>::f", "rayon::E::f")),
        ("<unclosed as rayon::X", ()),
    ],
)
def test_patterns_are_tried_on_the_self_type_and_the_trait(name: str, expected: tuple[str, ...]) -> None:
    assert set(names_to_match(name)) == {name, *expected}


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("rayon::*", "rayon::join", True),
        ("rayon::*", "rayon_core::join", False),
        ("rayon::*", "my::rayon::join", False),
        ("crossbeam_*", "crossbeam_deque::Worker<T>::push", True),
        ("a.b", "axb", False),
        ("*", "anything;\nat all", True),
        ("rayon::*", "<rayon::X as Drop>::drop", True),
    ],
)
def test_patterns(pattern: str, name: str, matches: bool) -> None:
    assert views.Elision([pattern]).matches(native(name)) is matches


FRAMES = st.sampled_from(["rayon::a", "rayon_core::b", "user::c", "user::d", "<rayon::X as T>::e", "crossbeam_f"])
LOCATIONS = st.lists(FRAMES, min_size=1, max_size=4).map(
    lambda names: (native(names[0]), *(inlined(name) for name in names[1:]))
)
STACKS = st.dictionaries(
    st.lists(LOCATIONS, max_size=12).map(lambda locations: (COMM, *locations)), st.integers(1, 1000), max_size=30
)


@given(STACKS)
def test_no_view_gains_or_loses_a_sample(stacks: dict[tuple[tuple[Frame, ...], ...], int]) -> None:
    tree = stack_tree(stacks)
    expected = sum(stacks.values())
    for view in (views.FULL, views.FUNCTIONS, WORK):
        assert views.draw(tree, view).total == expected
        assert views.draw(tree, view, "period").total == expected * 1000


@given(STACKS)
def test_work_is_full_without_elided_frames(stacks: dict[tuple[tuple[Frame, ...], ...], int]) -> None:
    """Checked against the definition, applied to each stack by itself."""
    expected: Counter[str] = Counter()
    elision = views.Elision(WORK.elide)
    for stack, weight in stacks.items():
        frames = [frame for location in stack for frame in location]
        kept = [frame.name for frame in frames if not elision.matches(frame)]
        if elision.matches(frames[-1]):
            kept.append(ELIDED.name)
        expected[";".join(kept)] += weight
    assert drawn(stack_tree(stacks), WORK) == dict(expected)
