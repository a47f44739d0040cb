"""Runs programs for the parts, each within the time that is left, and notes what came of them."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LIMIT = 8 * 60  # seconds a part
# Whose turn it is: first what has no verdict, then what was out of time, then what could not run.
TURNS = ("", "left", "cannot")


class Failed(Exception):
    """A program ended as it must not, or gave a wrong number."""


class Cannot(Exception):
    """This machine lacks what the part needs."""


class TooSlow(Exception):
    """A program was not done within its own limit."""


class OutOfTime(Exception):
    """The time of the part, or of the call, is over."""


class Machine:
    """Runs programs for one part after another, each within the time that the part has left.

    programs  folder of our programs; sizes  those of tools/gpu/sizes.py; results  tools/gpu/results.py
    python    a Python that may have PyTorch, CuPy and JAX; jobs  processes that share the GPU
    env       of our programs; together_env  the same where `jobs` of them share the processors
    """

    def __init__(self, root, programs, goldens, python, jobs, sizes, env, results):
        self.root, self.programs, self.goldens, self.python, self.jobs = root, programs, goldens, python, jobs
        self.sizes, self.env, self.results = sizes, env, results
        threads = max(1, len(os.sched_getaffinity(0)) // jobs)
        self.together_env = env | {"OMP_NUM_THREADS": str(threads)}
        self.until = 0.0
        self.running, self.stopped = set(), False
        self.lock = threading.Lock()
        self.scratch = Path(tempfile.mkdtemp(prefix="gpu-check-"))

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def program(self, name):
        path = self.programs / name
        if not path.exists():
            raise Failed(f"no program {path}; build it, or name the folder that has it by --bin")
        return path

    @contextlib.contextmanager
    def started(self, words, env, file):
        """A process that writes to a file, ended with what it has started."""
        try:
            process = subprocess.Popen(words, env=env, cwd=self.scratch, stdout=file, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as e:
            raise Failed(f"{words[0]} cannot be started: {e.strerror}") from e
        self.running.add(process)
        try:
            if self.stopped:
                raise OutOfTime
            yield process
        finally:
            end_group(process)
            self.running.discard(process)

    def stop(self):
        """Ends all processes; no other one starts."""
        self.stopped = True
        for process in list(self.running):
            end_group(process)

    def ranks(self, command, envs, limit):
        """[(exit status, output)] of one command as several processes. The output is logged also when time ends.

        TooSlow after `limit` seconds, OutOfTime when the part's time ends before.
        """
        left = self.until - time.monotonic()
        if left <= 0:
            raise OutOfTime
        words, end, late = [str(word) for word in command], time.monotonic() + min(left, limit), False
        with contextlib.ExitStack() as opened:
            files = [opened.enter_context(tempfile.TemporaryFile("w+", errors="replace", dir=self.scratch))
                     for _ in envs]
            with contextlib.ExitStack() as started:
                processes = [started.enter_context(self.started(words, env, file))
                             for env, file in zip(envs, files)]
                try:
                    for process in processes:
                        process.wait(max(end - time.monotonic(), 0))
                except subprocess.TimeoutExpired:
                    late = True
            for file in files:
                file.seek(0)
            done = [(process.returncode, file.read()) for process, file in zip(processes, files)]
        with self.lock:
            for status, output in done:
                self.results.log(f"$ {' '.join(words)}\n{output}[{'stopped' if late else status}]\n")
        if self.stopped or (late and limit >= left):
            raise OutOfTime
        if late:
            written = "\n".join(output for _status, output in done)
            raise TooSlow(f"{Path(words[0]).name} was not done within {limit} s:\n{tail(written)}")
        return done

    def run(self, command, limit=LIMIT, env=None):
        """(exit status, output) of a command, as for `ranks`."""
        return self.ranks(command, [self.env if env is None else env], limit)[0]

    def good(self, command, limit=LIMIT, env=None):
        """The output of a command, which must end with 0."""
        status, output = self.run(command, limit, env)
        if status:
            raise Failed(f"{Path(str(command[0])).name} ended with {status}:\n{tail(output)}")
        return output

    def counted(self, command, limit=LIMIT, env=None):
        """How many checks of a command passed."""
        return count_passed(Path(str(command[0])).name, self.good(command, limit, env))

    def each(self, section, items, check, jobs=1):
        """check(item) for all items that the section has no verdict of, `jobs` at a time; each result is saved.

        What check returns is kept: {"what": text, ...}. An item that is too slow has another try in the next call,
        and has failed if it is too slow again. Raises what the verdicts amount to.
        """
        verdicts = section.setdefault("items", {})
        over = threading.Event()

        def state(item):
            return verdicts.get(item, {}).get("state", "")

        def one(item):
            if over.is_set():
                return
            tries = verdicts.get(item, {}).get("tries", 0)
            try:
                verdict = {"state": "passed"} | check(item)
            except Failed as e:
                verdict = {"state": "failed", "what": str(e)}
            except Cannot as e:
                verdict = {"state": "cannot", "what": str(e)}
            except TooSlow as e:
                verdict = {"state": "failed" if tries else "left", "what": f"too slow: {e}", "tries": tries + 1}
            except OutOfTime:
                over.set()
                verdict = {"state": "left", "what": "stopped by the end of the part's time", "tries": tries}
            except Exception as e:  # of this script, which must not end what follows
                verdict = {"state": "failed", "what": f"{type(e).__name__}: {e}"}
            with self.lock:
                verdicts[item] = verdict
                self.results.save()
            if verdict["state"] != "passed":
                print(f"  {item}: {verdict['state']}: {first_line(verdict['what'])}", flush=True)

        todo = sorted((item for item in items if state(item) in TURNS), key=lambda item: TURNS.index(state(item)))
        with ThreadPoolExecutor(jobs) as pool:
            try:
                list(pool.map(one, todo))
            except (KeyboardInterrupt, SystemExit):  # the pool waits for its threads, and they for their programs
                self.stop()
                raise
        by_state = {name: [i for i in items if state(i) == name] for name in ("passed", "failed", "cannot")}
        count = f"{len(by_state['passed'])} of {len(items)} passed"
        if any(state(i) in ("", "left") for i in items):
            raise OutOfTime
        if by_state["failed"]:
            raise Failed(f"{count}; failed: {', '.join(by_state['failed'])}\n"
                         + "\n".join(f"{i}: {verdicts[i]['what']}" for i in by_state["failed"]))
        if by_state["cannot"]:
            first = by_state["cannot"][0]
            raise Cannot(f"{count}, {len(by_state['cannot'])} cannot run; {first}: {verdicts[first]['what']}")
        return count


def end_group(process):
    """Ends what a command has left running, and waits for the command, but not for one that hangs in the driver."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)


def count_passed(program, output):
    """How many checks passed by the line 'N passed, 0 failed', without which the program has failed."""
    last = re.findall(r"^(\d+) passed, (\d+) failed$", output, re.M)
    if not last or last[-1][1] != "0" or last[-1][0] == "0":
        raise Failed(f"{program}: no line 'N passed, 0 failed':\n{tail(output)}")
    return int(last[-1][0])


def tail(output, lines=15):
    return "\n".join(output.splitlines()[-lines:])


def first_line(text):
    return (text.splitlines() or [""])[0]
