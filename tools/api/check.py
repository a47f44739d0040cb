#!/usr/bin/env python3
"""check.py XML GROUPS: every public declaration that Doxygen found stands in a group that GROUPS documents."""
import pathlib
import re
import sys
import xml.etree.ElementTree as tree

xml, groups = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
documented = set(re.findall(r"\\defgroup (\w+) \S.*\n\S", groups.read_text()))
wrong, found = [], 0


def place(element):
    at = element.find("location")
    return "?" if at is None else f"{at.get('file')}:{at.get('line')}"


grouped = set()
for path in xml.glob("group__*.xml"):
    compound = tree.parse(path).getroot().find("compounddef")
    name = compound.findtext("compoundname")
    members = [m.get("id") for m in compound.iter("memberdef")] + [c.get("refid") for c in compound.findall("innerclass")]
    found += len(members)
    if name in documented:
        grouped.update(members)
    else:
        wrong.append(f"group {name} is not in {groups.name}: give it a title and a line")

for path in xml.glob("namespacepursuit*.xml"):
    for member in tree.parse(path).getroot().iter("memberdef"):
        if member.get("id") not in grouped:
            wrong.append(f"{place(member)}: {member.findtext('name')} is in no group")
for kind in ("class", "struct"):
    for path in xml.glob(f"{kind}pursuit_*.xml"):
        compound = tree.parse(path).getroot().find("compounddef")
        name, inside = compound.findtext("compoundname"), compound.get("id")
        plain = re.sub("^(class|struct)", "", inside)
        outer = any(plain.startswith(re.sub("^(class|struct)", "", other) + "_1_1") for other in grouped)
        if inside not in grouped and not outer:
            wrong.append(f"{place(compound)}: {name} is in no group")

print("\n".join(sorted(set(wrong))) if wrong else f"{found} declarations in {len(documented)} groups")
sys.exit(1 if wrong or not found else 0)
