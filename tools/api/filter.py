#!/usr/bin/env python3
"""filter.py HEADER: the header as Doxygen wants it, on standard output.

A comment in front of a declaration or behind it documents it, one in front of the namespace the file; all that
a header declares belongs to the group of its folder."""
import pathlib
import re
import sys

header = pathlib.Path(sys.argv[1])
root = pathlib.Path(__file__).resolve().parents[2]
group = "_".join(header.resolve().relative_to(root).parts[:-1])

lines = header.read_text().split("\n")
out, behind = [], False  # whether the line before ended with a comment behind code
for i, line in enumerate(lines):
    alone = re.match(r"(\s*)//(?!/)( ?)(.*)", line)
    trailing = re.match(r"(.*[;,{]\s+)//(?!/)(.*)", line)
    if alone:
        text = alone[3]
        first = i == 0 or not re.match(r"\s*//", lines[i - 1])
        rest = next((later for later in lines[i:] if not re.match(r"\s*//", later)), "")
        if behind:
            out.append(f"{alone[1]}///< {text}")
        elif first and rest.startswith("namespace"):
            out.append(f"/// \\file\n/// {text}")
        else:
            out.append(f"{alone[1]}/// {text}")
    else:
        behind = bool(trailing)
        if re.match(r"}  // namespace", line):
            out.append("/// @}")
        out.append(f"{trailing[1]}///<{trailing[2]}" if trailing else line)
    # Doxygen's groups begin and end within a namespace. One of forward declarations alone has none.
    forward = i + 1 < len(lines) and re.match(r"(class|struct) \w+;$", lines[i + 1])
    if re.match(r"namespace \S+ {$", line) and not forward:
        out.append(f"/// \\addtogroup {group}\n/// @{{")
print("\n".join(out))
