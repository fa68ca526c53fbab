"""The service manager that a daemon reports to."""
import socket


class Manager:
    """The manager's end of NOTIFY_SOCKET."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.settimeout(20)

    def next(self):
        """The next datagram that is no sign of life, as a dictionary."""
        while (text := self.socket.recv(4096).decode()) == "WATCHDOG=1":
            pass
        return dict(line.split("=", 1) for line in text.split("\n"))

    def wait_for_sign_of_life(self):
        while self.socket.recv(4096) != b"WATCHDOG=1":
            pass
