"""A program in a terminal of a given size, and what that shows."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from grantd_testing import Wrong

SECONDS = 90
READ_BYTES = 1 << 16
TAB_COLUMNS = 8
# Control sequences of ECMA-48, and a title (OSC).
SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>]")


class Screen:
    """What a terminal shows of an output: its rows, the ones that scrolled away included."""

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column = columns, [""], 0, 0
        # Rows that were begun because the text before was longer than a line.
        self.wraps = 0

    def feed(self, text):
        position = 0
        while position < len(text):
            if found := SEQUENCE.match(text, position):
                if found[2] == "K":
                    self.rows[self.row] = self.rows[self.row][:self.column]
                position = found.end()
                continue
            self.put(text[position])
            position += 1
        return self

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.down()
        elif character == "\t":
            self.column = (self.column // TAB_COLUMNS + 1) * TAB_COLUMNS
        elif character >= " ":
            if self.column >= self.columns:
                self.wraps += 1
                self.down()
                self.column = 0
            line = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = line[:self.column] + character + line[self.column + 1:]
            self.column += 1

    def down(self):
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")

    def visible(self, rows):
        return self.rows[-rows:]


class Terminal:
    """grantctl, or a shell, in a terminal, which has the settings of its start at the end."""

    def __init__(self, arguments, columns=80, rows=24, echo=False, **variables):
        self.columns, self.lines, self.text, self.status = columns, rows, "", None
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.master, slave = pty.openpty()
        settings = termios.tcgetattr(slave)
        if not echo:
            settings[3] &= ~termios.ECHO
            termios.tcsetattr(slave, termios.TCSANOW, settings)
        self.settings = termios.tcgetattr(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [str(word) for word in arguments], stdin=slave, stdout=slave, stderr=slave, env=variables,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)

    def pump(self, seconds):
        """Reads for at most that time; False at the end."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, READ_BYTES)
        except OSError:
            data = b""
        self.text += self.decoder.decode(data)
        return bool(data)

    def until(self, pattern, seconds=SECONDS):
        """The match of a pattern in all that was written."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            if time.monotonic() > end or not self.pump(0.1):
                raise Wrong(f"{pattern!r} does not come: {self.text[-800:]!r}")
        return found

    def read_for(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.pump(left):
            pass
        return self.text

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self, seconds=SECONDS):
        """All that was written, when the program has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.pump(0.1):
            pass
        try:
            self.status = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Wrong(f"the program does not end: {self.text[-800:]!r}") from None
        # The master has the settings of the slave.
        if self.status >= 0 and (after := termios.tcgetattr(self.master)) != self.settings:
            raise Wrong(f"the terminal was {self.settings}, and is {after}")
        return self.text

    @property
    def echoes(self):
        """Whether typed text shows now."""
        return bool(termios.tcgetattr(self.master)[3] & termios.ECHO)

    def finished(self):
        """The screen at the end of the program."""
        self.end()
        return self.screen

    def close_by(self, key):
        """Ends the program by a key."""
        self.type(key)
        self.end()

    @property
    def screen(self):
        return Screen(self.columns).feed(self.text)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
