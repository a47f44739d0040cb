"""What the parts found: a JSON file, a table and a log of one commit on one GPU."""
import hashlib
import json
import re
import subprocess

MOST_FILES = 8
MOST_LOG = 12 << 20  # bytes; the beginning goes first
MOST_OUTPUT = 1 << 16  # bytes a command
HEADINGS = {"passed": "passed", "failed": "FAILED", "cannot": "cannot run", "left": "not done"}


class Results:
    """parts: {name: {"state", "what", "seconds", "date", "tries", "items"}}

    "left" is a part that has no verdict yet, tries how often in a row it began and got no further, date when it last
    began or ended ("": never).
    """

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
        """Adds the parts of a file of the same commit and GPU. Of a part in both, the later verdict counts."""
        if not path.exists():
            return
        for name, part in json.loads(path.read_text())["parts"].items():
            older, newer = sorted((self.parts.get(name, part), part), key=lambda p: p["date"])
            counts = older if newer["state"] == "left" and older["state"] != "left" else newer
            items = older.get("items", {}) | newer.get("items", {})
            self.parts[name] = counts | ({"items": items} if items else {})

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


def manifest(root):
    """What tools/gpu-bundle says of a bundle; of a checkout nothing."""
    file = root / "MANIFEST.json"
    return json.loads(file.read_text()) if file.exists() else {}


def commit_of(root, programs):
    """The commit of a bundle or a checkout, and the hash of its programs, which may be of another build."""
    commit = manifest(root).get("commit") or git_commit(root)
    digest = hashlib.sha256()
    for program in programs:
        digest.update(program.read_bytes())
    return f"{commit}-{digest.hexdigest()[:8]}"


def git_commit(root):
    def git(*words):
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, timeout=60,
                              check=True).stdout.strip()
    try:
        return git("rev-parse", "--short=12", "HEAD") + ("-changed" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
