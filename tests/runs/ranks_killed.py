#!/usr/bin/env python3
"""Training by three ranks, one of which is killed or stopped, again and again: the others end within 15 seconds with a
line that names it, no process is left, and the run goes on from its checkpoint to the weights of one that was never
disturbed. Usage: ranks_killed.py [--all] [--random N] HOLD APP SETTING...

HOLD is the library that holds a rank in a forward pass, a reduction, an evaluation or while rank 0 saves. By itself a few
cases; --all has each rank, both signals and all places, --random N as many moments of a run. Garbage on the ports may end
a run with a line and changes nothing in it. A run that is asked to stop, by any rank or as a whole, saves once, and all
its ranks end with the same code.
"""
import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

RANKS = 3
LIMIT = 15
HELD = ("forward", "reduction", "evaluation", "saving")


class Run:
    """A training, under its launcher."""

    def __init__(self, app, words, hold=None):
        self.tag, self.rank_pids = str(uuid.uuid4()), {}
        self.err = Path(f"err-{self.tag}")
        environment = os.environ | {"TEST_TAG": self.tag, "OMP_NUM_THREADS": "1"} | (hold or {})
        with open(self.err, "w") as err:
            self.process = subprocess.Popen([app, "train", *words, "--quiet"], env=environment, stdout=subprocess.DEVNULL,
                                            stderr=err, start_new_session=True)

    def processes(self):
        """Those of this training that are alive, by rank (None: the launcher)."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if f"TEST_TAG={self.tag}".encode() not in variables or state in "ZX":
                continue
            ranks = [v.split(b"=")[1] for v in variables if v.startswith(b"PURSUIT_RANK=")]
            found[int(ranks[0]) if ranks else None] = int(entry.name)
        return found

    def pid_of(self, rank):
        until = time.monotonic() + 10
        while time.monotonic() < until and self.process.poll() is None:
            if rank in (found := self.processes()):
                return found[rank]
            time.sleep(0.02)
        sys.exit(f"rank {rank} did not start: {self.text()}")

    def ports(self):
        """Of 127.0.0.1, at which its processes listen."""
        sockets = set()
        for pid in self.processes().values():
            for entry in Path(f"/proc/{pid}/fd").glob("*"):
                try:
                    sockets.add(os.readlink(entry))
                except OSError:
                    continue
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}

    def text(self):
        return self.err.read_text(errors="replace")

    def end(self, limit):
        """Its exit code and how long that took."""
        begin = time.monotonic()
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            alive = self.processes()
            os.killpg(self.process.pid, signal.SIGKILL)
            sys.exit(f"after {limit} s these still ran: {alive}: {self.text()}")
        took = time.monotonic() - begin
        time.sleep(0.1)
        if alive := self.processes():
            sys.exit(f"left behind: {alive}: {self.text()}")
        return code, took


class Test:
    def __init__(self, o):
        self.o, self.count, self.slowest = o, 0, 0.0
        run = Run(o.app, [*o.settings, "--out", "whole", "--ranks", str(RANKS)])
        begin = time.monotonic()
        code, _ = run.end(300)
        if code:
            sys.exit(f"the undisturbed run failed: {run.text()}")
        self.span = time.monotonic() - begin

    def words(self):
        begun = Path("run/config.json").exists()
        return ["--resume", "run"] if begun else [*self.o.settings, "--out", "run", "--ranks", str(RANKS)]

    def disturb(self, number, rank, place):
        """One rank is ended, or stopped and not continued."""
        hold = {}
        if place in HELD:
            held = Path(f"held-{uuid.uuid4()}")
            hold = {"LD_PRELOAD": str(self.o.hold), "HOLD_FILE": str(held.absolute()), "HOLD_AT": place,
                    "HOLD_RANK": str(0 if place == "saving" else rank)}
        run = Run(self.o.app, self.words(), hold)
        pid = run.pid_of(rank)
        if hold:
            until = time.monotonic() + 20
            while not held.exists() and run.process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            if not held.exists():
                if run.process.poll() is not None:  # it had less to do than that
                    return False
                sys.exit(f"rank {rank} never came to {place}")
        elif place != "its start":
            time.sleep(0.3 + 0.7 * random.random() * self.span)
            if run.process.poll() is not None:
                return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # it was done already
            run.end(LIMIT)
            return False
        code, took = run.end(LIMIT + 1)
        what = f"{signal.Signals(number).name} of rank {rank} in {place}"
        said = run.text()
        if code == 0:
            if "is lost" not in said:
                return False  # it was done already
            sys.exit(f"{what}: exit code 0")
        if took > LIMIT:
            sys.exit(f"{what}: it took {took:.1f} s")
        if f"rank {rank} is lost" not in said:
            sys.exit(f"{what}: nobody names it: {said}")
        self.count += 1
        self.slowest = max(self.slowest, took)
        print(f"{what}: exit {code} after {took:.1f} s: {said.splitlines()[0][:100] if said else ''}", flush=True)
        return True

    def throw_garbage(self):
        """Strangers write to every port that the ranks listen at, which is for a moment, and keep their connections.
        Whether there was one."""
        run = Run(self.o.app, self.words())
        kept, ports, begin = [], set(), time.monotonic()
        while run.process.poll() is None and time.monotonic() < begin + 300:
            for port in run.ports() - ports:
                ports.add(port)
                for garbage in (b"GET / HTTP/1.1\r\n\r\n", bytes(4096), random.randbytes(100_000), b""):
                    try:
                        kept.append(socket.create_connection(("127.0.0.1", port), timeout=1))
                        kept[-1].sendall(garbage)
                    except OSError:
                        pass
            if time.monotonic() > begin + 2:
                time.sleep(0.1)
        code, _ = run.end(1)
        if code not in (0, 1) or (code and "error: " not in run.text()):
            sys.exit(f"garbage on {len(ports)} ports: exit {code}: {run.text()}")
        if not ports:
            return False
        self.count += 1
        print(f"garbage on {len(ports)} ports: exit {code}: {(run.text().splitlines() or [''])[0][:100]}", flush=True)
        return True

    def ask(self, number, whom, at_once=False):
        """It is asked to stop: a rank, its launcher, or all of them as a terminal does. At once: while the ranks load
        the program."""
        run = Run(self.o.app, self.words())
        run.pid_of(RANKS - 1)
        time.sleep(0 if at_once else 0.3 + random.random() * self.span / 3)
        if run.process.poll() is not None:
            return False
        before = set(Path("run").glob("checkpoint*.safetensors"))
        if whom == "all":
            os.killpg(run.process.pid, number)
        else:
            os.kill(run.process.pid if whom is None else run.pid_of(whom), number)
        code, took = run.end(LIMIT)
        if code == 0:
            return False  # it was done already
        said = run.text()
        if code != 1 or said.count("stopped at step") + said.count("stopped; all") != 1:
            sys.exit(f"{signal.Signals(number).name} to {whom}: exit code {code}: {said}")
        after = set(Path("run").glob("checkpoint*.safetensors"))
        if not after >= before:
            sys.exit(f"checkpoints went: {before - after}")
        self.count += 1
        print(f"{signal.Signals(number).name} to {'the launcher' if whom is None else whom}{' at once' * at_once}: "
              f"exit {code} after {took:.1f} s", flush=True)
        return True

    def finish(self):
        run = Run(self.o.app, self.words())
        code, _ = run.end(300)
        if code:
            sys.exit(f"the last resume failed: {run.text()}")
        whole, killed = (Path(name, "checkpoint.safetensors").read_bytes() for name in ("whole", "run"))
        body = [data[8 + int.from_bytes(data[:8], "little"):] for data in (whole, killed)]
        if body[0] != body[1] or len(body[0]) < 10_000:
            sys.exit("the weights are not those of the undisturbed run")
        steps = [json.loads(line).get("step") for line in Path("run/metrics.jsonl").read_text().splitlines()]
        if steps != sorted(steps):
            sys.exit(f"the metrics go back: {steps}")
        shutil.rmtree("run")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--all", action="store_true", help="each rank, both signals, all places")
    p.add_argument("--random", type=int, default=3, metavar="N", help="so many random moments")
    p.add_argument("--seed", type=int, default=0, help="of the moments")
    p.add_argument("hold", type=lambda path: Path(path).resolve())
    p.add_argument("app", type=lambda path: Path(path).resolve())
    p.add_argument("settings", nargs=argparse.REMAINDER)
    o = p.parse_args()
    random.seed(o.seed)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        test = Test(o)
        kill, stop = signal.SIGKILL, signal.SIGSTOP
        places = [(kill, 0, "forward"), (kill, 2, "reduction"), (kill, 1, "evaluation"), (kill, 1, "saving"),
                  (kill, 2, "its start"), (stop, 0, "reduction")]
        if o.all:
            places = [(number, rank, place) for place in HELD for number in (kill, stop) for rank in range(RANKS)]
            places += [(kill, rank, "its start") for rank in range(RANKS)]
        done = 0
        for case in places:
            done += test.disturb(*case)
            test.finish()
        if done < len(places):
            sys.exit(f"{len(places) - done} of {len(places)} cases came too late")
        moments = 0
        for i in range(5 * o.random):
            if moments == o.random:
                break
            number = stop if o.all and i % 5 == 0 else kill
            hit = test.disturb(number, i % RANKS, "a random moment")
            moments += hit
            if not hit or i % 4 == 3:
                test.finish()
        test.finish()
        if moments < o.random:
            sys.exit(f"only {moments} of {o.random} moments hit a running training")
        for _ in range(5):
            thrown = test.throw_garbage()
            test.finish()
            if thrown:
                break
        else:
            sys.exit("no port was seen open in five runs")
        for number in (signal.SIGINT, signal.SIGTERM):
            for whom in (None, 0, 2, "all") if o.all else (None, 1):
                for _ in range(3):
                    asked = test.ask(number, whom)
                    test.finish()
                    if asked:
                        break
                else:
                    sys.exit(f"{signal.Signals(number).name} to {whom} came too late three times")
            for whom in (None, "all"):
                if not test.ask(number, whom, at_once=True):
                    sys.exit(f"{signal.Signals(number).name} to {whom} came too late though it was sent at once")
            test.finish()
        print(f"{test.count} times disturbed, the slowest end after {test.slowest:.1f} s; the weights are those of an "
              "undisturbed run")
        os.chdir("/")


if __name__ == "__main__":
    main()
