#!/usr/bin/env python3
"""quotes.py ROOT: programs in READMEs are quoted from files that are compiled.

A block of code behind a line `<!-- FILE -->` must stand in that file word for word, but for its indentation. In
the READMEs listed below every block of C++ must be such a quotation."""
import pathlib
import re
import sys
import textwrap

QUOTING = ["README.md", "apps/examples/README.md"]
BLOCK = re.compile(r"(?:^<!-- (?P<file>\S+) -->\n)?^```cpp\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def stands_in(code, text):
    lines = code.rstrip("\n").split("\n")
    of_file = text.split("\n")
    for i in range(len(of_file) - len(lines) + 1):
        if textwrap.dedent("\n".join(of_file[i : i + len(lines)])).rstrip("\n") == "\n".join(lines):
            return True
    return False


def main():
    root = pathlib.Path(sys.argv[1])
    quoted, wrong = 0, []
    for readme in sorted(root.rglob("*.md")):
        name = str(readme.relative_to(root))
        if name.split("/")[0].startswith(("build", ".")):
            continue
        for block in BLOCK.finditer(readme.read_text()):
            first = block["code"].split("\n")[0]
            if not block["file"]:
                if name in QUOTING:
                    wrong.append(f"{name}: the block '{first}' says no file that it is quoted from")
                continue
            quoted += 1
            source = root / block["file"]
            if not source.is_file():
                wrong.append(f"{name}: there is no file {block['file']}")
            elif not stands_in(textwrap.dedent(block["code"]), source.read_text()):
                wrong.append(f"{name}: the block '{first}' differs from {block['file']}")
    print("\n".join(wrong) if wrong else f"{quoted} quotations stand in their files")
    return 1 if wrong or not quoted else 0


if __name__ == "__main__":
    sys.exit(main())
