"""A terminal for tests: runs a program on a pseudo-terminal, keeps its screen, does what it is told line by line.

    terminal.py COLUMNS ROWS PROGRAM ARGUMENT...

Commands come as lines of JSON on standard input, each is answered by one line of JSON:
{"send": "keys"}, {"wait": "text", "seconds": 20}, {"resize": [columns, rows]}, {"signal": "TERM"}, {"end": seconds}.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[^\[]")


class Screen:
    """As much of a terminal as full-screen programs of ours use; anything else is noted."""

    def __init__(self, columns, rows):
        self.modes, self.unknown, self.rest = set(), [], ""
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def feed(self, text):
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                if not found:
                    self.rest = text[at:]
                    return
                self.act(found)
                at = found.end()
            else:
                self.put(text[at])
                at += 1

    def put(self, sign):
        if sign == "\r":
            self.column = 0
        elif sign == "\n":
            self.row = min(self.row + 1, self.rows - 1)
        elif self.row < self.rows and self.column < self.columns:
            self.lines[self.row][self.column] = sign
            self.column += 1

    def act(self, found):
        numbers, letter = found.group(1) or "", found.group(2)
        if letter == "H":
            row, column = (numbers.split(";") + ["1", "1"])[:2] if numbers else ("1", "1")
            self.row, self.column = int(row) - 1, int(column) - 1
        elif letter == "K" and self.row < self.rows:
            self.lines[self.row][self.column:] = [" "] * (self.columns - min(self.column, self.columns))
        elif letter == "J":
            start = 0 if numbers == "2" else self.row
            for row in range(start, self.rows):
                self.lines[row] = [" "] * self.columns
        elif letter == "h":
            self.modes.add(numbers)
        elif letter == "l":
            self.modes.discard(numbers)
        elif letter != "m":
            self.unknown.append(found.group(0))

    def text(self):
        return ["".join(line).rstrip() for line in self.lines]


def size(fd, columns, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Terminal:
    def __init__(self, columns, rows, words):
        self.screen = Screen(columns, rows)
        self.master, self.slave = pty.openpty()
        size(self.slave, columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(self.slave, fd)
            os.execv(words[0], words)
        self.code = None

    def read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.screen.feed(os.read(self.master, 65536).decode("utf-8", "replace"))
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)

    def until(self, done, seconds):
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            self.read(0.05)
        return done()

    def seen(self, text):
        return any(text in line for line in self.screen.text())

    def obey(self, order):
        if "send" in order:
            os.write(self.master, order["send"].encode())
        if "resize" in order:
            columns, rows = order["resize"]
            self.screen.resize(columns, rows)
            size(self.slave, columns, rows)
        if "signal" in order:
            os.kill(self.pid, getattr(signal, "SIG" + order["signal"]))
        found = True
        if "wait" in order:
            found = self.until(lambda: self.seen(order["wait"]), order["seconds"])
        if "gone" in order:
            found = self.until(lambda: not self.seen(order["gone"]), order["seconds"])
        if "end" in order:
            found = self.until(lambda: self.code is not None, order["end"])
            self.read(0.2)
        same = termios.tcgetattr(self.slave)[:4] == self.before[:4]
        return {
            "found": found,
            "screen": self.screen.text(),
            "code": self.code,
            "restored": same and not self.screen.modes - {"?7", "?25"},
            "unknown": self.screen.unknown,
        }


def main():
    terminal = Terminal(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    try:
        for line in sys.stdin:
            print(json.dumps(terminal.obey(json.loads(line))), flush=True)
    finally:
        if terminal.code is None:
            os.kill(terminal.pid, signal.SIGKILL)


main()
