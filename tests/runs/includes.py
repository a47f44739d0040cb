#!/usr/bin/env python3
"""includes.py ROOT: the includes of product code point down the drawing of rooms in README.md.

A room is a folder, or a file with or without its ending, or several: nn/{vit,segmenter}. The longest name that fits
counts. A file may include its own room's and those of rooms on lines below."""
import pathlib
import re
import sys

ENDINGS = {".h", ".cpp", ".inc", ".cu", ".cuh"}


def wrong_includes(drawing, files):
    """What is wrong with files {path: text}, in lines. drawing: lines of rooms, the highest first."""
    place = {}  # name: (how high, room)
    for i, line in enumerate(drawing):
        for room in line.split():
            folder, several = re.fullmatch(r"([^{]*)(?:{(.*)})?", room).groups()
            place |= {folder + part: (-i, room) for part in (several or "").split(",")}
    wrong = []

    def place_of(path):
        fits = [n for n in place if n in (path, path.rsplit(".", 1)[0]) or path.startswith(n + "/")]
        if not fits:
            wrong.append(f"{path} is in no room of the drawing")
        return place[max(fits, key=len)] if fits else None

    for path, text in files.items():
        here = place_of(path)
        for target in re.findall(r'^\s*#\s*include "([^"]+)"', text, re.MULTILINE):
            there = place_of(target)
            if here and there and here != there and here[0] <= there[0]:
                wrong.append(f"{path} includes {target}: {there[1]} is not below {here[1]}")
    return wrong


def finds_what_is_planted():
    drawing = ["ops ops/{b,c}", "core"]
    for path, target, count in [("ops/a.h", "core/b.h", 0), ("ops/b.cpp", "ops/c.h", 0), ("core/a.h", "ops/b.h", 1),
                                ("ops/a.h", "ops/b.h", 1), ("ops/a.h", "tests/b.h", 1), ("new/a.h", "core/b.h", 1)]:
        assert len(wrong_includes(drawing, {path: f'#include <x>\n#include "{target}"\n'})) == count, (path, target)


def main():
    finds_what_is_planted()
    root = pathlib.Path(sys.argv[1])
    drawing = re.search(r"^```rooms\n(.*?)^```$", (root / "README.md").read_text(), re.M | re.S)[1].splitlines()
    tops = {re.split("/|{", room)[0] for line in drawing for room in line.split()}
    paths = [p for top in sorted(tops) for p in sorted((root / top).rglob("*")) if p.suffix in ENDINGS]
    wrong = wrong_includes(drawing, {str(p.relative_to(root)): p.read_text() for p in paths})
    print("\n".join(wrong) if wrong else f"{len(paths)} files include downwards")
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
