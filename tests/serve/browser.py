"""A real browser, Chromium without a window, by its DevTools protocol over a pipe."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PATIENCE = 20.0


@contextmanager
def opened(folder):
    """A browser with one page, whose profile is in the folder."""
    to_browser, ours_out = os.pipe()
    ours_in, from_browser = os.pipe()

    def as_it_wants():  # it reads from 3 and writes to 4
        spare = [os.dup(to_browser), os.dup(from_browser)]
        for number, wanted in zip(spare, (3, 4), strict=True):
            os.dup2(number, wanted)

    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += [
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-extensions",
    ]
    command += ["--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(
        command, preexec_fn=as_it_wants, close_fds=False, stderr=subprocess.DEVNULL
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        with open(ours_out, "wb", 0) as out, open(ours_in, "rb") as into:
            page = Page(out, into)
            yield page
            page.command("Browser.close")
            process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()


class Page:
    """The one page of the browser, and what went wrong on it."""

    def __init__(self, out, into):
        self._out, self._in = out, into
        self._numbers = itertools.count(1)
        self._session = {}
        self._left = b""
        self.complaints = []  # exceptions, and what the page's policy refused
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": session["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")

    def command(self, method, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **self._session}
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            if answer.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(answer["params"]["exceptionDetails"])
            if answer.get("method") == "Log.entryAdded":
                entry = answer["params"]["entry"]
                if entry["source"] in {"security", "javascript", "violation"}:
                    self.complaints.append(entry["text"])

    def _receive(self):
        while b"\0" not in self._left:
            found = os.read(self._in.fileno(), 1 << 16)
            assert found, "the browser has gone"
            self._left += found
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)

    def go(self, url):
        self.command("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def look(self, width, height, scheme="light", phone=False):
        """The size of the window, and whether people want it light or dark."""
        scale = 2 if phone else 1
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=phone,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", features=features)

    def run(self, script):
        """The value of an expression, awaited."""
        found = self.command(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def write(self, selector, text):
        """As if it were typed."""
        place, text = json.dumps(selector), json.dumps(text)
        self.run(
            f"(e => {{ e.value = {text}; e.dispatchEvent(new Event('input')) }})"
            f"(document.querySelector({place}))"
        )

    def wait(self, script):
        """Until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not (found := self.run(script)):
            assert time.monotonic() < end, (
                f"never so: {script}\n{self.run('document.body.innerText')}"
            )
            time.sleep(0.05)
        return found

    def picture(self, path):
        """The whole page, as a PNG."""
        found = self.command("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))
