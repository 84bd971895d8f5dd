"""Reads the frames back out of a flame graph, ours or inferno's."""

from __future__ import annotations

import random
import re
from typing import NamedTuple
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
FG = "{http://github.com/jonhoo/inferno}"


class Rectangle(NamedTuple):
    """A frame as printed; ``level`` counts from the bottom, 0 for the root."""

    level: int
    fg_x: str
    fg_w: str
    title: str
    x: str
    width: str
    label: str
    text_x: str
    text_y: str


class Picture(NamedTuple):
    """A whole flame graph, its frames sorted; ``fills`` and ``kinds`` are in the order of ``frames``."""

    height: str
    width: str
    total_samples: str
    frames: list[Rectangle]
    fills: list[str]
    kinds: list[str | None]

    def named(self, name: str) -> list[Rectangle]:
        return [frame for frame in self.frames if frame.title.rpartition(" (")[0] == name]


def parse(svg: bytes) -> ET.Element:
    return ET.fromstring(svg)


def read_picture(data: bytes) -> Picture:
    svg = parse(data)
    container = next(element for element in svg.iter(SVG + "svg") if element.get("id") == "frames")
    groups = [(group, *group) for group in container]
    heights = sorted({int(rect.attrib["y"]) for _, _, rect, _ in groups}, reverse=True)
    rows = []
    for group, title, rect, text in groups:
        frame = Rectangle(
            level=heights.index(int(rect.attrib["y"])),
            fg_x=rect.attrib[FG + "x"],
            fg_w=rect.attrib[FG + "w"],
            title=title.text or "",
            x=rect.attrib["x"],
            width=rect.attrib["width"],
            label=text.text or "",
            text_x=text.attrib["x"],
            text_y=text.attrib["y"],
        )
        rows.append((frame, rect.attrib["fill"], group.get(FG + "kind")))
    rows.sort(key=lambda row: row[0])
    return Picture(
        height=svg.attrib["height"],
        width=svg.attrib["width"],
        total_samples=container.attrib["total_samples"],
        frames=[row[0] for row in rows],
        fills=[row[1] for row in rows],
        kinds=[row[2] for row in rows],
    )


def random_stacks(seed: int, lines: int, names: list[str], depth: int = 12) -> str:
    """Folded text of ``lines`` different stacks that branch like a program's, sorted by nobody.

    No line ends in a space or a number of its own, which the format would take for nothing or for another weight.
    """
    draw = random.Random(seed)
    stacks: dict[str, int] = {}
    while len(stacks) < lines:
        frames = ["main"]
        for _ in range(draw.randint(0, depth)):
            crowd = random.Random(f"{seed} {';'.join(frames)}").sample(names, min(len(names), 4))
            frames.append(crowd[int(draw.random() ** 2 * len(crowd))])
        if re.search(r"(\s| [0-9]+)\Z", frames[-1]):
            frames.append("leaf")
        stacks[";".join(frames)] = draw.randint(1, 40)
    return "".join(f"{stack} {weight}\n" for stack, weight in stacks.items())
