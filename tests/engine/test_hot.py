"""Hot functions: own and total weight, recursion counted once."""

from __future__ import annotations

from ipuenv.engine.hot import hot_functions
from ipuenv.engine.stacks import FrameKind, FrameTree, Label


def tree_of(stacks: dict[str, int]) -> FrameTree:
    tree = FrameTree()
    for stack, weight in stacks.items():
        comm, *names = stack.split(";")
        tree.add([Label(comm, FrameKind.COMM), *(Label(name, FrameKind.NATIVE) for name in names)], weight)
    return tree


def test_self_and_total_weights() -> None:
    found = hot_functions(tree_of({"t;main": 1, "t;main;f": 2, "t;main;f;g": 4, "u;g": 8}), 10)
    assert [(f.name, f.self_weight, f.total_weight) for f in found] == [("g", 12, 12), ("f", 2, 6), ("main", 1, 7)]


def test_recursion_is_counted_once() -> None:
    found = hot_functions(tree_of({"t;f;f;f": 3, "t;f;g;f": 2, "t;f": 1}), 10)
    assert {f.name: (f.self_weight, f.total_weight) for f in found} == {"f": (6, 6), "g": (0, 2)}


def test_the_limit_keeps_the_hottest() -> None:
    found = hot_functions(tree_of({f"t;f{index}": index for index in range(1, 30)}), 10)
    assert [f.self_weight for f in found] == list(range(29, 19, -1))


def test_a_deep_stack_needs_no_recursion() -> None:
    found = hot_functions(tree_of({"t;" + ";".join(f"f{index}" for index in range(5000)): 1}), 1)
    assert found[0].name == "f4999"
