"""Drives a headless Chromium over a pipe (the DevTools protocol, one JSON text after the other, each ended by a zero
byte), with nothing but Python's standard library."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile


def find_chromium():
    if path := os.environ.get("LOCKSTEP_CHROMIUM"):
        return path
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise SystemExit("no Chromium found: install Debian's package 'chromium', or Google Chrome where there is none, or "
                     "name one in LOCKSTEP_CHROMIUM")


class Browser:
    """A browser without a profile. Use as a context manager."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(prefix="lockstep-chromium-", ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        command = (
            f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command, find_chromium(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={self._profile.name}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._ids = itertools.count(1)
        self._buffer = b""
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (OSError, EOFError):
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def _next_message(self):
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise EOFError("Chromium ended. As a snap it cannot be driven from here: install Google Chrome, or name "
                               "another in LOCKSTEP_CHROMIUM")
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        """Sends a command and returns its result; events that arrive meanwhile are kept in `events`."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next_message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def wait_for(self, method):
        while not any(event["method"] == method for event in self.events):
            self.events.append(self._next_message())

    def open_tab(self):
        return Tab(self)


class Tab:
    def __init__(self, browser):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def open(self, url):
        """Loads the page; afterwards `requests` are all that it asked for and `complaints` what the console says."""
        self._browser.events.clear()
        self.call("Page.navigate", url=url)
        self._browser.wait_for("Page.loadEventFired")

    def look(self, width, height, dark=False, media="screen"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "script failed"))
        return answer["result"].get("value")

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True,
                                          paperWidth=8.27, paperHeight=11.69)["data"])

    @property
    def requests(self):
        return [event["params"]["request"]["url"] for event in self._browser.events
                if event["method"] == "Network.requestWillBeSent"]

    @property
    def complaints(self):
        return [event["params"]["entry"]["text"] for event in self._browser.events
                if event["method"] == "Log.entryAdded"]
