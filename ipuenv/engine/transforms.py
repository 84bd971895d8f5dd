"""Other pictures of the same labels: recursion collapsed, stacks turned round. Weight is moved, never lost."""

from __future__ import annotations

from ipuenv.engine.stacks import ROOT, FrameTree


def collapse_recursion(tree: FrameTree) -> FrameTree:
    """Each stretch of one label under itself becomes one frame, so that depth says nothing of how often it recurred."""
    collapsed = FrameTree(tree.unit)
    ids = [collapsed.intern(label) for label in tree.labels]
    parents, keys = tree.tree.parents, tree.tree.keys
    placed = [ROOT] * len(tree)
    collapsed.weights[ROOT] += tree.weights[ROOT]
    for node in range(1, len(tree)):
        parent, key = parents[node], keys[node]
        repeats = parent != ROOT and keys[parent] == key
        placed[node] = placed[parent] if repeats else collapsed.child(placed[parent], ids[key])
        collapsed.weights[placed[node]] += tree.weights[node]
    return collapsed


def reverse(tree: FrameTree) -> FrameTree:
    """Stacks turned round: leaves stand at the root, their callers above them, the thread's name last."""
    turned = FrameTree(tree.unit)
    ids = [turned.intern(label) for label in tree.labels]
    parents, keys = tree.tree.parents, tree.tree.keys
    turned.weights[ROOT] += tree.weights[ROOT]
    for leaf in range(1, len(tree)):
        if not tree.weights[leaf]:
            continue
        place, node = ROOT, leaf
        while node != ROOT:
            place = turned.child(place, ids[keys[node]])
            node = parents[node]
        turned.weights[place] += tree.weights[leaf]
    return turned
