"""Runs cases of Autobahn's test suite, converted by convert_suite.py: run_suite.py PEER [SECTION ...], where PEER is the URL
of a server that echoes, or the program echo_peer.

Prints the cases that are not OK, then one line a section. Exit status 1 unless every case is OK or informational.
"""
import collections
import os
import subprocess
import sys
import time

import txaio

txaio.use_twisted()

from autobahn.twisted.websocket import WebSocketClientFactory, WebSocketClientProtocol, connectWS
from autobahn.websocket.protocol import WebSocketProtocol
from twisted.internet import reactor
from twisted.python import log

sys.path.insert(0, os.path.join(sys.prefix, "suite"))
from autobahntestsuite.case import CaseBasename, Cases, CaseCategories, CaseSetname, CaseSubCategories
from autobahntestsuite.caseset import CaseSet

PASSED = ("OK", "INFORMATIONAL")


def wire(text):
    """Bytes of what the suite calls a string."""
    return text.encode("latin-1") if isinstance(text, str) else text


class Peer(WebSocketClientProtocol):
    """The suite's end of one connection, with what its cases call; strings become bytes and bytes strings here."""

    def connectionMade(self):
        self.connectionWasOpen = False
        self.createWirelog = False
        self.rxFrameStats, self.txFrameStats = collections.Counter(), collections.Counter()
        self.begun = time.monotonic()
        super().connectionMade()

    def connectionLost(self, reason):
        super().connectionLost(reason)
        self.runCase.onConnectionLost(self.failedByMe)
        self.factory.end_case(self.runCase, time.monotonic() - self.begun)

    def onOpen(self):
        self.connectionWasOpen = True
        self.runCase.onOpen()

    def onMessage(self, payload, isBinary):
        self.runCase.onMessage(payload.decode("latin-1"), isBinary)

    def onPong(self, payload):
        self.runCase.onPong(payload.decode("latin-1"))

    def onClose(self, wasClean, code, reason):
        self.runCase.onClose(wasClean, code, reason)

    def logRxFrame(self, header, payload):
        self.rxFrameStats[header.opcode] += 1

    def logTxFrame(self, header, payload, repeatLength, chopsize, sync):
        self.txFrameStats[header.opcode] += 1

    def logRxOctets(self, data):
        pass

    def logTxOctets(self, data, sync):
        pass

    def enableWirelog(self, enable):
        pass

    def sendFrame(self, opcode, payload=b"", *arguments, payload_len=None, **options):
        data = wire(payload)
        if payload_len is not None:  # repeated to this length; the library does that in Python 2 only
            data = (data * (payload_len // len(data) + 1))[:payload_len]
        super().sendFrame(opcode, data, *arguments, **options)

    def sendMessage(self, payload, isBinary=False, *arguments, **options):
        super().sendMessage(wire(payload), isBinary, *arguments, **options)

    def sendMessageFrameData(self, payload, sync=False):
        return super().sendMessageFrameData(wire(payload), sync)

    def sendCloseFrame(self, code=None, reasonUtf8=None, isReply=False):
        super().sendCloseFrame(code, wire(reasonUtf8), isReply)

    def later(self, delay, action):
        reactor.callLater(delay, lambda: None if self.state == WebSocketProtocol.STATE_CLOSED else action())

    def continueLater(self, delay, action, tag=None):
        self.later(delay, action)

    def killAfter(self, delay):
        self.later(delay, self._fail_connection)

    def closeAfter(self, delay):
        self.later(delay, self.sendClose)


class Suite(WebSocketClientFactory):
    """One connection for each case, one after the other."""

    noisy = False

    def __init__(self, url, sections):
        super().__init__(url)
        # The library rounds the end of a handshake's time down to a whole second: its second for the closing one may be none.
        self.setProtocolOptions(
            failByDrop=False, openHandshakeTimeout=10, closeHandshakeTimeout=10, serverConnectionDropTimeout=10
        )
        self.logFrames = True
        self.names = CaseSet(CaseSetname, CaseBasename, Cases, CaseCategories, CaseSubCategories)
        self.cases = [case for case in Cases if self.section_of(case) in sections]
        self.waiting = list(self.cases)
        self.results = []

    def section_of(self, case):
        return self.names.caseClasstoIdTuple(case)[0]

    def buildProtocol(self, address):
        peer = Peer()
        peer.factory = self
        peer.runCase = self.waiting.pop(0)(peer)
        return peer

    def end_case(self, case, seconds):
        # The close of an informational case has no expectation of its own.
        passed = case.behavior in PASSED and case.behaviorClose in PASSED
        self.results.append((type(case), case.behavior, case.behaviorClose, passed))
        if not passed:
            why = case.result if case.behavior not in PASSED else f"{case.resultClose} ({case.p.wasNotCleanReason})"
            print(f"{self.names.caseClasstoId(type(case))}: {case.behavior}, close {case.behaviorClose}: {why} ({seconds:.1f} s)", flush=True)

    def clientConnectionLost(self, connector, reason):
        if self.waiting:
            connector.connect()
        else:
            reactor.stop()

    def clientConnectionFailed(self, connector, reason):
        print(f"no connection: {reason.getErrorMessage()}")
        reactor.stop()


def run(url, sections):
    """Prints the results; true if all passed."""
    suite = Suite(url, sections)
    errors = []
    log.addObserver(lambda event: errors.append(log.textFromEventDict(event)) if event["isError"] else None)
    begun = time.monotonic()
    connectWS(suite)
    reactor.run()
    for section in sections:
        counts = collections.Counter(behavior for case, behavior, _, _ in suite.results if suite.section_of(case) == section)
        print(f"section {section}: " + ", ".join(f"{count} {behavior}" for behavior, count in sorted(counts.items())))
    failed = sum(not passed for _, _, _, passed in suite.results)
    missing = len(suite.cases) - len(suite.results)
    print(f"{len(suite.results)} cases in {time.monotonic() - begun:.0f} s, {failed} failed, {missing} not run")
    for error in errors:
        print(f"the suite itself failed: {error}")
    return bool(suite.cases) and not (failed or missing or errors)


def main():
    peer, sections = sys.argv[1], [int(text) for text in sys.argv[2:]] or [1, 2, 3, 4, 5, 6, 7, 10]
    if "://" in peer:
        sys.exit(0 if run(peer, sections) else 1)
    with subprocess.Popen([peer], stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().split()[-1].replace("http", "ws") + "/v1/responses"
        passed = run(url, sections)
        server.terminate()
        sys.exit(0 if server.wait(timeout=30) == 0 and passed else 1)


main()
