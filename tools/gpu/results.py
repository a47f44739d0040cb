"""What the parts found: a JSON file, a table and a log of one commit on one GPU."""
import json
import re
import subprocess

MOST_FILES = 8
MOST_LOG = 12 << 20  # bytes; the beginning goes first
MOST_OUTPUT = 1 << 16  # bytes a command
HEADINGS = {"passed": "passed", "failed": "FAILED", "cannot": "cannot run", "left": "not done"}


class Results:
    """parts: {name: {"state", "what", "seconds", "date", "items"}}; "left" is a part that has not ended yet."""

    def __init__(self, folder, commit, gpu, earlier):
        self.folder, self.commit, self.gpu = folder, commit, gpu
        slug = re.sub(r"[^a-z0-9.]+", "-", gpu["name"].lower()).strip("-")
        self.name = re.sub(r"[^A-Za-z0-9.-]", "-", f"gpu-{slug}-{commit}")
        self.parts = {}
        folder.mkdir(parents=True, exist_ok=True)
        others = [f for f in folder.iterdir() if not f.name.startswith(self.name + ".")]
        if len(others) + 3 > MOST_FILES:
            raise ValueError(f"got {len(others)} other files in {folder}, need at most {MOST_FILES - 3}; name another folder")
        for place in [*earlier, folder]:
            self.merge(place / f"{self.name}.json")

    def path(self, ending):
        return self.folder / f"{self.name}.{ending}"

    def merge(self, path):
        """Adds the parts of a file of the same commit and GPU; of a part in both, the verdict that came last counts."""
        if not path.exists():
            return
        found = json.loads(path.read_text())
        for name, part in found["parts"].items():
            mine = self.parts.get(name)
            items = (mine or {}).get("items", {}) | part.get("items", {})
            if not mine or mine["state"] == "left" or (part["state"] != "left" and part["date"] > mine["date"]):
                self.parts[name] = part
            if items:
                self.parts[name]["items"] = items

    def save(self):
        """Writes the JSON file and the table, each whole or not at all."""
        text = json.dumps({"commit": self.commit, "gpu": self.gpu, "parts": self.parts}, indent=1)
        for ending, content in (("json", text + "\n"), ("md", self.table())):
            part = self.path(ending + ".part")
            part.write_text(content)
            part.replace(self.path(ending))

    def log(self, text):
        """Adds to the log; of a long output its end."""
        path = self.path("log")
        with path.open("ab") as file:
            file.write(text.encode()[-MOST_OUTPUT:])
        if path.stat().st_size > MOST_LOG:
            path.write_bytes(path.read_bytes()[-MOST_LOG // 2:])

    def table(self):
        rows = [f"# {self.gpu['name']}, driver {self.gpu['driver']}, commit {self.commit}", "",
                "| part | result | seconds | |", "|---|---|---:|---|"]
        for name, part in self.parts.items():
            what = (part["what"].splitlines() or [""])[0].replace("|", "\\|")
            rows.append(f"| {name} | {HEADINGS[part['state']]} | {part['seconds']} | {what} |")
        for name, part in self.parts.items():
            figures = [(item, verdict["what"]) for item, verdict in part.get("items", {}).items() if "figures" in verdict]
            if figures:
                rows += ["", f"## {name}", "", *(f"- {item}: {what}" for item, what in figures)]
        return "\n".join(rows) + "\n"


def commit_of(root):
    """The commit of a bundle by its manifest, that of a checkout by git."""
    manifest = root / "MANIFEST.json"
    if manifest.exists():
        return json.loads(manifest.read_text())["commit"]
    return git_commit(root)


def git_commit(root):
    def git(*words):
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.strip()
    try:
        return git("rev-parse", "--short=12", "HEAD") + ("-changed" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
