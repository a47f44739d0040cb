#!/usr/bin/env python3
"""The server and the page of `segment interactive serve`, with a model that is none: serve.py SERVE_TOY [--screenshot FILE]

The mask of the toy is discs around positive clicks without those around negative ones, which is computed here too.
First raw sockets: what is served, what is refused and how, requests that never end, two pages at once. Then the page in
a headless Chromium, if there is one: a picture, clicks, keys, zoom, a download, a picture that the server has dropped.
"""
import argparse
import base64
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import zlib
from pathlib import Path

RADIUS = 30
KEPT = 8  # pictures
MOST_PICTURE = 32 << 20


def want(true, text):
    if not true:
        sys.exit(f"serve: {text}")


# ---- pictures


def png_chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, rows):
    """RGB; `rows` may be fewer than the header claims."""
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", body) + png_chunk(b"IEND", b"")


def plain_picture(width, height, colour=(200, 180, 160)):
    return png(width, height, [bytes(colour) * width] * height)


def grey_pixels(data):
    """(width, height, rows) of a grey 8-bit PNG."""
    at, packed, width, height = 8, b"", 0, 0
    while at < len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        chunk = data[at + 8:at + 8 + length]
        if name == b"IHDR":
            width, height, depth, kind = struct.unpack_from(">IIBB", chunk)
            want((depth, kind) == (8, 0), f"the mask has depth {depth} and colour type {kind}")
        elif name == b"IDAT":
            packed += chunk
        at += 12 + length
    raw, rows, above = zlib.decompress(packed), [], bytearray(width)
    for y in range(height):
        kind, row = raw[y * (width + 1)], bytearray(raw[y * (width + 1) + 1:(y + 1) * (width + 1)])
        for x in range(width):
            a, b, c = (row[x - 1] if x else 0), above[x], (above[x - 1] if x else 0)
            near = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[x] = (row[x] + (0, a, b, (a + b) // 2, near)[kind]) & 255
        rows.append(row)
        above = row
    return width, height, rows


def discs(width, height, clicks):
    def within(c, x, y):
        return (x - c["x"]) ** 2 + (y - c["y"]) ** 2 <= RADIUS ** 2
    positive, negative = ([c for c in clicks if c["positive"] == kind] for kind in (True, False))
    return [bytearray(255 if any(within(c, x, y) for c in positive) and not any(within(c, x, y) for c in negative) else 0
                      for x in range(width)) for y in range(height)]


def a_click(x, y, positive=True):
    return {"x": x, "y": y, "positive": positive}


# ---- the server


class Answer:
    def __init__(self, raw):
        head, _, self.body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if lines[0].startswith("HTTP/1.1 ") else None
        self.headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:])}


class Server:
    def __init__(self, program, *words):
        self.process = subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        parts = urllib.parse.urlsplit(self.address)
        want(parts.hostname == "127.0.0.1", f"the address is {self.address!r}")
        self.port, self.token = parts.port, urllib.parse.parse_qs(parts.query)["token"][0]
        want(len(self.token) >= 32, f"the token {self.token} is short")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def raw(self, data):
        """What is answered to these bytes; None where the connection is closed without an answer."""
        with self.connect() as s:
            received = b""
            try:
                s.sendall(data)
            except OSError:
                pass  # it may have been answered before all was sent
            try:
                while part := s.recv(65536):
                    received += part
            except ConnectionError:
                pass
        return Answer(received) if received else None

    def head(self, method, path, body=b"", **change):
        headers = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.token}"}
        if method == "POST":
            kind = "image/png" if path == "/pictures" else "application/json"
            headers |= {"Content-Type": kind, "Content-Length": str(len(body))}
        headers |= {name.replace("_", "-"): value for name, value in change.items()}
        lines = [f"{name}: {value}\r\n" for name, value in headers.items() if value is not None]
        return f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode()

    def ask(self, method, path, body=b"", **change):
        return self.raw(self.head(method, path, body, **change) + body)

    def add(self, picture):
        answer = self.ask("POST", "/pictures", picture)
        want(answer.status == 200, f"a picture is answered by {answer.status}: {answer.body}")
        return json.loads(answer.body)

    def mask(self, picture, clicks):
        return self.ask("POST", "/masks", json.dumps({"picture": picture, "clicks": clicks}).encode())

    def check_mask(self, added, clicks):
        """Its bytes, after they were compared."""
        answer = self.mask(added["id"], clicks)
        want(answer.status == 200, f"clicks are answered by {answer.status}: {answer.body}")
        want(answer.headers["content-type"] == "image/png" and "dur=" in answer.headers["server-timing"],
             f"headers of a mask: {answer.headers}")
        expected = (added["width"], added["height"], discs(added["width"], added["height"], clicks))
        want(grey_pixels(answer.body) == expected, f"the mask of {clicks} is another one")
        return answer.body

    def refuse(self, status, answer, what):
        want(answer is not None, f"{what}: closed without an answer, need {status}")
        want(answer.status == status, f"{what}: got {answer.status} {answer.body[:200]}, need {status}")
        line = answer.body.decode()
        want(line.endswith("\n") and line.count("\n") == 1 and len(line) > 10, f"{what}: the reason is {line!r}")
        want(answer.headers["content-type"].startswith("text/plain"), f"{what}: {answer.headers}")
        return line

    def end(self):
        """By ctrl-C: at once, with one line beside that of its start."""
        self.process.send_signal(signal.SIGINT)
        try:
            _, err = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit("serve: the server did not end after SIGINT")
        want(self.process.returncode == 0, f"exit code {self.process.returncode} after SIGINT: {err}")
        want(len([line for line in err.splitlines() if line]) == 2, f"after SIGINT it said {err!r}")


# ---- raw sockets


def check_served(s):
    page = s.ask("GET", f"/?token={s.token}", Authorization=None)
    want(page.status == 200 and b"toy &lt;model&gt; &amp; discs" in page.body, "the page does not name the model")
    want(b"{{" not in page.body, "the page has unfilled places")
    for header, value in (("content-security-policy", "frame-ancestors 'none'"), ("x-content-type-options", "nosniff"),
                          ("cache-control", "no-store"), ("referrer-policy", "no-referrer")):
        want(value in page.headers.get(header, ""), f"the page's headers: {page.headers}")
    want("unsafe" not in page.headers["content-security-policy"], "the page allows unsafe scripts")
    for path, kind in (("/page.css", "text/css"), ("/page.js", "text/javascript")):
        answer = s.ask("GET", f"{path}?token={s.token}", Authorization=None, Host=f"localhost:{s.port}",
                       Accept_Encoding="gzip, br", Range="bytes=0-3,5-9")
        want(answer.status == 200 and answer.headers["content-type"].startswith(kind) and len(answer.body) > 1000 and
             "content-encoding" not in answer.headers, f"{path}: {answer.status} {answer.headers}")
    added = s.add(plain_picture(160, 90))
    want((added["width"], added["height"]) == (160, 90), f"a picture of 160 x 90: {added}")
    s.check_mask(added, [a_click(40, 40), a_click(90, 50), a_click(60, 40, False)])
    want(s.ask("POST", "/masks", json.dumps({"picture": added["id"], "clicks": [a_click(1, 1)]}).encode(),
               Origin=f"http://127.0.0.1:{s.port}").status == 200, "the page's own origin is refused")
    return added


def check_refused(s, added):
    def masks(body, **change):
        return s.ask("POST", "/masks", body if isinstance(body, bytes) else json.dumps(body).encode(), **change)

    def of(clicks):
        return {"picture": added["id"], "clicks": clicks}

    s.refuse(403, s.ask("GET", "/", Authorization=None), "no token")
    for token in ("", "x", s.token[:-1], s.token + "0", s.token.upper() if s.token.upper() != s.token else "A" * 32):
        s.refuse(403, s.ask("GET", "/", Authorization=f"Bearer {token}"), f"the token {token!r}")
        s.refuse(403, s.ask("GET", f"/page.js?token={token}", Authorization=None), f"the token {token!r}")
    s.refuse(403, s.ask("GET", f"/?token={s.token}", Authorization="Bearer wrong"), "two tokens, one of them wrong")
    s.refuse(403, s.ask("GET", "/nothing", Authorization=None), "an unknown path without a token")
    for host in (None, "evil.example", f"evil.example:{s.port}", "127.0.0.1", f"127.0.0.1:{s.port + 1}",
                 f"[::1]:{s.port}", f"127.0.0.1:{s.port}\r\nHost: evil.example"):
        s.refuse(403, s.ask("GET", "/", Host=host), f"the host {host}")
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{s.port}", f"http://127.0.0.1:{s.port + 1}",
                   f"http://127.0.0.1:{s.port}.evil.example"):
        s.refuse(403, masks(of([a_click(1, 1)]), Origin=origin), f"the origin {origin}")
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "TRACE", "CONNECT", "POST"):
        answer = s.ask(method, "/")
        want(answer.status == 405, f"{method} /: {answer.status}")
    s.refuse(405, s.ask("GET", "/masks"), "GET /masks")
    for path in ("/nothing", "/page.html", "/../page.js", "//", "/page%2ejs/", "/%00"):
        s.refuse(404, s.ask("GET", path), path)

    for body, what in ((b"", "nothing"), (b"{", "half a list"), (b"\xff\xfe\x00", "bytes"), (b"[" * 60000, "deep lists"),
                       (b"1e999", "a huge number"), ([], "a list"), ({}, "no picture"), (of(None), "no clicks"),
                       (of([]), "an empty list"), (of([a_click(1, 1)] * 257), "257 clicks"), (of([1]), "a number"),
                       (of([a_click(-1, 1)]), "left of it"), (of([a_click(160, 1)]), "right of it"),
                       (of([a_click(1, 90)]), "below it"), (of([a_click(1.5, 1)]), "half a pixel"),
                       (of([a_click(2 ** 63, 1)]), "far away"), (of([a_click("1", 1)]), "text"),
                       (of([{"x": 1, "y": 2}]), "no sign"), (of([a_click(1, 1, 1)]), "a number as sign"),
                       ({"picture": 7, "clicks": [a_click(1, 1)]}, "a number as picture")):
        s.refuse(400, masks(body), f"clicks: {what}")
    s.refuse(410, s.mask("0" * 32, [a_click(1, 1)]), "an unknown picture")
    s.refuse(413, masks(b" " * 70000), "70000 bytes of clicks")
    s.refuse(415, masks(of([a_click(1, 1)]), Content_Type="text/plain"), "clicks as text")
    s.refuse(415, masks(of([a_click(1, 1)]), Content_Encoding="gzip"), "clicks that are compressed")
    s.refuse(415, s.ask("POST", "/pictures", b"x", Content_Type="multipart/form-data; boundary=x"), "a form")
    s.refuse(411, s.raw(s.head("POST", "/pictures", Content_Length=None, Transfer_Encoding="chunked") +
                        b"3\r\nabc\r\n0\r\n\r\n"), "chunks")
    s.refuse(411, s.ask("POST", "/pictures", b"x", Content_Length=None), "no length")
    for length in ("-1", "1x", "0x10", "1\r\nContent-Length: 2"):
        s.refuse(411, s.ask("POST", "/pictures", b"xx", Content_Length=length), f"the length {length!r}")
    for length in (MOST_PICTURE + 1, 10 ** 18, 10 ** 30):
        s.refuse(413, s.ask("POST", "/pictures", b"x" * 1000, Content_Length=length), f"{length} bytes")
    s.refuse(413, s.ask("POST", "/pictures", bytes(MOST_PICTURE + 1)), "a file over 32 MiB, all of it sent")

    good = plain_picture(64, 48)
    for picture, what in ((b"", "an empty file"), (b"hello", "text"), (good[:-30], "a truncated PNG"),
                          (b"\xff\xd8\xff" + bytes(100), "a damaged JPEG"), (bytes(MOST_PICTURE), "32 MiB of zeros"),
                          (png(60000, 60000, [bytes(60000)]), "a PNG that claims 60000 x 60000"),
                          (png(16000, 16000, [bytes(3)]), "a PNG that claims 256 megapixels"),
                          (png(0, 0, []), "a PNG of no pixels")):
        s.refuse(400, s.ask("POST", "/pictures", picture), what)
    line = s.refuse(500, s.ask("POST", "/pictures", plain_picture(8, 8, (255, 0, 0))), "a look that throws")
    want("red corner" in line and "[" not in line, f"a look that throws: {line!r}")
    s.refuse(500, s.mask(added["id"], [a_click(0, 0)]), "masks that throw")


def check_garbage(s):
    draws = random.Random(0)
    for data in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01", bytes(5000),
                 b"GET / HTTP/1.1\r\n" + b"no colon\r\n" * 50 + b"\r\n", b"G" * 100_000, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
                 b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100_000, b"GET / HTTP/1.1\r\nA: " + b"b" * 100_000,
                 *(draws.randbytes(draws.randrange(1, 3000)) + b"\r\n\r\n" for _ in range(40))):
        with s.connect() as c:
            try:
                c.sendall(data)
                c.shutdown(socket.SHUT_WR)
                answer = b""
                while part := c.recv(65536):
                    answer += part
            except OSError as e:
                want(not isinstance(e, TimeoutError), f"garbage {data[:60]} is not answered")
                continue
        want(not answer or Answer(answer).status in (400, 403, 414), f"garbage {data[:60]} is answered by {answer[:100]}")


def check_pages_at_once(s):
    """Interleaved clicks on different pictures."""
    failures = []

    def page(seed):
        draws = random.Random(seed)
        try:
            added, clicks = s.add(plain_picture(60 + 9 * seed, 80)), []
            for _ in range(6):
                clicks.append(a_click(draws.randrange(added["width"]), draws.randrange(1, 80), draws.random() < 0.7))
                s.check_mask(added, clicks)
        except SystemExit as e:
            failures.append(e)

    pages = [threading.Thread(target=page, args=(seed,)) for seed in range(4)]
    for thread in pages:
        thread.start()
    for thread in pages:
        thread.join()
    want(not failures, f"pages at once: {failures}")


def check_dropped(s, added):
    """Only the pictures that were used last are kept."""
    names = [s.add(plain_picture(9 + i, 9))["id"] for i in range(KEPT)]
    want(len(set(names)) == KEPT, f"names of pictures: {names}")
    s.refuse(410, s.mask(added["id"], [a_click(1, 1)]), "a picture that was dropped")
    want(s.mask(names[0], [a_click(1, 1)]).status == 200, "a picture that should be kept")
    s.add(plain_picture(20, 20))
    want(s.mask(names[0], [a_click(1, 1)]).status == 200, "a picture that was used")
    s.refuse(410, s.mask(names[1], [a_click(1, 1)]), "the picture that was used least")


class SlowClients:
    """Connections that send a byte now and then; some are idle, some are in the body of a picture."""

    def __init__(self, server, count):
        self.stopped, self.lost = threading.Event(), 0
        starts = [b"", b"GET / HTTP/1.1\r\nHost: ", server.head("POST", "/pictures", Authorization=None, Content_Length="1000")]
        self.sockets = []
        for i in range(count):
            self.sockets.append(server.connect())
            self.sockets[-1].sendall(starts[i % 3])
        self.thread = threading.Thread(target=self.drip)
        self.thread.start()

    def drip(self):
        alive = list(self.sockets)
        while not self.stopped.wait(0.2):
            for s in list(alive):
                try:
                    s.sendall(b"x")
                except OSError:
                    alive.remove(s)
        self.lost = len(self.sockets) - len(alive)

    def end(self):
        self.stopped.set()
        self.thread.join()
        for s in self.sockets:
            s.close()


def times(s, added, count=20):
    """Of a click, in milliseconds: the median and the longest."""
    took = []
    for i in range(count):
        begin = time.monotonic()
        answer = s.mask(added["id"], [a_click(40 + i, 40)])
        took.append(1000 * (time.monotonic() - begin))
        want(answer.status == 200, f"a click beside slow connections: {answer.status}")
    return f"{sorted(took)[count // 2]:.1f} ms, at most {max(took):.1f}"


def check_slow(s):
    added = s.add(plain_picture(160, 90))
    alone = times(s, added)
    # It is ended when its time is over, however it trickles.
    with s.connect() as half:
        half.sendall(s.head("POST", "/pictures", Content_Length="1000"))
        half.settimeout(20)
        for count in (30, 200):
            slow = SlowClients(s, count)
            print(f"a click beside {count} slow connections: {times(s, added)}; alone {alone}", flush=True)
            s.check_mask(s.add(plain_picture(50, 50)), [a_click(20, 20)])
            slow.end()
        s.refuse(400, Answer(b"".join(iter(lambda: half.recv(4096), b""))), "half a picture")


def check_protocol(program):
    s = Server(program)
    added = check_served(s)
    check_refused(s, added)
    check_garbage(s)
    check_pages_at_once(s)
    check_dropped(s, check_served(s))
    check_slow(s)
    check_served(s)
    slow = SlowClients(s, 100)
    s.end()
    slow.end()


# ---- the page


class Browser:
    """A headless Chromium with one page, by the DevTools protocol over pipes."""

    def __init__(self, program, folder):
        to_read, self.to = os.pipe()
        self.of, to_write = os.pipe()

        def pipes():  # the protocol's descriptors are 3 and 4
            low, high = os.dup2(to_read, 100), os.dup2(to_write, 101)
            os.dup2(low, 3)
            os.dup2(high, 4)

        words = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}/profile", "--no-first-run",
                 "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--window-size=1180,760",
                 *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        self.process = subprocess.Popen([program, *words, "about:blank"], preexec_fn=pipes, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.count, self.session, self.received, self.events = 0, None, b"", []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")
        self.folder = folder
        self.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def message(self, limit=30):
        while b"\0" not in self.received:
            want(select.select([self.of], [], [], limit)[0], "the browser does not answer")
            part = os.read(self.of, 1 << 20)
            want(part, "the browser has ended")
            self.received += part
        text, _, self.received = self.received.partition(b"\0")
        return json.loads(text)

    def call(self, method, **params):
        self.count += 1
        request = {"id": self.count, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.count:
                want("error" not in answer, f"{method}: {answer.get('error')}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        want("exceptionDetails" not in result, f"{expression}: {result.get('exceptionDetails')}")
        return result["result"].get("value")

    def until(self, expression, what):
        end = time.monotonic() + 15
        while not self.value(expression):
            if time.monotonic() > end:
                sys.exit(f"serve: {what}: never happened; {self.value('document.body?.innerText')}")
            time.sleep(0.02)

    def mouse(self, x, y, button="left", modifiers=0):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1, modifiers=modifiers)

    def key(self, key, modifiers=0):
        text = {"text": key} if len(key) == 1 and not modifiers & 2 else {"text": "\r"} if key == "Enter" else {}
        code = {"Enter": 13, "ArrowRight": 39, "ArrowDown": 40}.get(key, ord(key[0].upper()))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def errors(self):
        bad = [e for e in self.events if e.get("method") == "Runtime.exceptionThrown" or
               (e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error")]
        self.events = []
        return bad

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


CONTROL, SHIFT = 2, 8


class Page:
    """The served page, with a picture on it."""

    def __init__(self, browser, server, picture):
        self.b, self.s, self.picture = browser, server, picture
        b = browser
        b.call("Page.navigate", url=server.address)
        b.until("document.readyState === 'complete' && typeof work === 'function'", "the page")
        b.value("""globalThis.seenBusy = 0;
            new MutationObserver(() => seenBusy += !element('busy').hidden).observe(element('busy'), {attributes: true})""")
        node = b.call("DOM.getDocument")["root"]["nodeId"]
        field = b.call("DOM.querySelector", nodeId=node, selector="#file")["nodeId"]
        b.call("DOM.setFileInputFiles", nodeId=field, files=[str(picture)])
        b.until("picture && picture.id && !working", "the look")

    def spot(self, x, y):
        """Where a pixel's centre is in the window."""
        return self.b.value(f"""(() => {{ const box = view.getBoundingClientRect();
            return [box.left + place.x + ({x} + 0.5) * place.scale, box.top + place.y + ({y} + 0.5) * place.scale] }})()""")

    def click(self, x, y, **how):
        self.b.mouse(*self.spot(x, y), **how)
        self.settle()

    def press(self, key, modifiers=0):
        self.b.key(key, modifiers)
        self.settle()

    def settle(self):
        # Two frames: clicks may move the picture's drawing to the next one.
        self.b.value("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
        self.b.until("!working", "an answer")
        self.b.value("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def clicks(self):
        return self.b.value("clicks")

    def shown(self, x, y):
        """The colour of the view at a pixel of the picture."""
        return self.b.value(f"""(() => {{ const r = devicePixelRatio;
            return [...pen.getImageData(Math.round(r * (place.x + ({x} + 0.5) * place.scale)),
                                        Math.round(r * (place.y + ({y} + 0.5) * place.scale)), 1, 1).data] }})()""")

    def check(self, clicks, probes):
        """The clicks, and where the mask is seen: the toy's picture has no such blue."""
        want(self.clicks() == clicks, f"clicks: got {self.clicks()}, need {clicks}")
        want(self.b.value("element('error').hidden"), f"the page says: {self.b.value('element(`error`).innerText')}")
        for (x, y), inside in probes.items():
            r, g, b, _ = self.shown(x, y)
            want((b > r + 30) == inside, f"at {x}, {y} the colour is {r} {g} {b}, need the mask there: {inside}")


def scene(width, height):
    """A picture with something on it, without blue."""
    rows = []
    for y in range(height):
        row = bytearray()
        for x in range(width):
            if (x - 150) ** 2 + (y - 130) ** 2 < 70 ** 2:
                row += bytes((214, 120 + x % 40, 60))
            elif y > 200 + 12 * ((x // 40) % 2):
                row += bytes((96, 120, 70))
            else:
                row += bytes((235, 225 - y // 8, 190 - y // 4))
        rows.append(bytes(row))
    return png(width, height, rows)


def check_page(program, chromium, folder, screenshot):
    picture = folder / "scene.png"
    picture.write_bytes(scene(400, 300))
    s = Server(program, "150", "150")
    browser = Browser(chromium, folder)
    try:
        page = Page(browser, s, picture)
        want(browser.value("seenBusy") > 0, "no progress was shown while the model looked")
        page.check([], {(150, 130): False})
        first, second = a_click(150, 130), a_click(190, 130)
        page.click(150, 130)
        page.check([first], {(150 + 20, 130): True, (150 - 40, 130): False})
        page.click(190, 130, modifiers=SHIFT)
        negative = a_click(190, 130, False)
        page.check([first, negative], {(135, 130): True, (172, 130): False})
        page.press("z", CONTROL)
        page.check([first], {(172, 130): True})
        page.click(190, 130, button="right")
        page.check([first, negative], {(172, 130): False})
        page.press("u")
        page.press("r")
        page.check([first, negative], {(172, 130): False})
        page.press("c")
        page.check([], {(150 + 20, 130): False})
        page.press("u")
        page.check([], {})
        page.press("r")
        page.check([first], {(150 + 20, 130): True})
        # By keys: the crosshair begins in the middle.
        page.press("n")
        page.press("Enter")
        for _ in range(3):
            page.press("ArrowRight")
        page.press("ArrowDown", SHIFT)
        page.press("Enter")
        by_key = a_click(203, 160, False)
        page.check([first, by_key], {(150 + 20, 130): True})
        page.press("u")
        page.press("n")
        page.press("Enter")
        page.check([first, a_click(203, 160)], {(203 + 15, 160): True})
        page.press("u")
        # Zoomed at the pointer, the same pixel stays there.
        spot = page.spot(190, 130)
        browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=spot[0], y=spot[1], deltaX=0, deltaY=-500)
        browser.until("!fitted", "the zoom")
        want(max(abs(a - b) for a, b in zip(page.spot(190, 130), spot)) < 1, "the pixel under the pointer moved")
        want(browser.value("place.scale") > 2, "the wheel does not zoom")
        page.click(190, 130)
        page.check([first, second], {(190 + 20, 130): True})
        if screenshot:
            page.press("0")
            page.click(200, 150, button="right")
            for name, scheme in ((screenshot, "light"), (screenshot.with_stem(screenshot.stem + "-dark"), "dark")):
                browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                name.write_bytes(base64.b64decode(browser.call("Page.captureScreenshot")["data"]))
            page.press("u")
        page.press("0")
        want(browser.value("fitted"), "0 does not fit")
        want(not browser.errors(), f"errors of the page: {browser.errors()}")
        # The file is the server's mask.
        added = s.add(picture.read_bytes())
        mask = s.check_mask(added, [first, second])
        page.press("d")
        saved, end = folder / "scene-mask.png", time.monotonic() + 15
        while not saved.exists():
            want(time.monotonic() < end, f"no download: {list(folder.iterdir())}")
            time.sleep(0.05)
        want(saved.read_bytes() == mask, "the download is not the server's mask")
        # A picture that the server has dropped is sent again; the clicks stay.
        for i in range(KEPT):
            s.add(plain_picture(9 + i, 9))
        page.click(60, 60)
        page.check([first, second, a_click(60, 60)], {(60 + 15, 60): True, (170, 130): True})
        # An error is shown in a line and nothing is lost.
        page.press("c")
        page.click(0, 0)
        want(browser.value("element('download').disabled"), "the mask of other clicks can be downloaded")
        want("a click into the corner" in browser.value("element('error').innerText"), "an error is not shown")
        want(page.clicks() == [a_click(0, 0)], "an error took clicks")
        page.press("u")
        page.click(150, 130)
        page.check([first], {(170, 130): True})
        browser.errors()
    finally:
        browser.end()
    s.end()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program", type=lambda path: Path(path).resolve())
    p.add_argument("--screenshot", type=Path, help="of the page, light and dark")
    o = p.parse_args()
    check_protocol(o.program)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        may_skip = os.environ.get("PURSUIT_MAY_SKIP")  # see tests/README.md
        want(may_skip is None or "browser" in may_skip.split(","), "there is no chromium, which tests the page")
        print("no chromium: the page itself was not tested")
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        check_page(o.program, chromium, Path(folder), o.screenshot)
    print("the page and its server")


if __name__ == "__main__":
    main()
