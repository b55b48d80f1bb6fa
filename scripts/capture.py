"""Packet captures of loopback: tcpdump started and stopped, and its files read. Knows nothing of tarebench.

Shared by the scripts that hold the client's stamps against what passed on the wire.
"""

import bisect
import json
import os
import shutil
import signal
import struct
import subprocess
import threading


class Unreadable(Exception):
    """The capture cannot be used; the text says why."""


def find_tcpdump(say):
    """Its path, or None; installed by apt-get when it is missing and this runs as root."""
    path = shutil.which("tcpdump") or shutil.which("tcpdump", path="/usr/sbin:/sbin")
    if not path and os.geteuid() == 0 and shutil.which("apt-get"):
        say("tcpdump is missing: apt-get install tcpdump")
        subprocess.run(["apt-get", "install", "-y", "-q", "tcpdump"], stdout=subprocess.DEVNULL, check=False, timeout=300)
        path = shutil.which("tcpdump") or shutil.which("tcpdump", path="/usr/sbin:/sbin")
    return path


def lines_until(stream, words, seconds):
    """The lines of `stream` up to one that holds `words`, or None when it does not come in time.

    Reading goes on in the background, into the same list, so that the writer never blocks.
    """
    lines, found = [], threading.Event()

    def read():
        for line in stream:
            lines.append(line.rstrip())
            if words in line:
                found.set()

    threading.Thread(target=read, daemon=True).start()
    return lines if found.wait(seconds) else None


class Capture:
    """tcpdump on `lo`, with nanosecond times of the kernel, of whole packets that `matching` lets through."""

    def __init__(self, tcpdump, path, matching):
        self.child = subprocess.Popen(
            [tcpdump, "-i", "lo", "-n", "-s", "0", "-B", "131072", "--time-stamp-precision=nano", "-j", "host",
             "-Z", "root", "-w", path, matching],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.lines = lines_until(self.child.stderr, "listening on", 20)
        if self.lines is None:
            self.kill()
            raise Unreadable("tcpdump did not come up within 20 s (may it capture here?)")

    def stop(self):
        """Ends it, and gives what it says of packets it lost."""
        self.child.send_signal(signal.SIGINT)
        self.child.wait(20)
        return next((line for line in self.lines if "dropped by kernel" in line), "tcpdump did not say what it dropped")

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait(10)


def packets(path):
    """(time ns, source port, destination port, seq, flags, payload) of every IPv4 TCP packet."""
    data = open(path, "rb").read()
    magic = data[:4]
    order, scale = {
        b"\x4d\x3c\xb2\xa1": ("<", 1), b"\xa1\xb2\x3c\x4d": (">", 1),
        b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\xa1\xb2\xc3\xd4": (">", 1000),
    }.get(magic, (None, None))
    if order is None:
        raise Unreadable(f"not a pcap file: {magic.hex()}")
    if scale != 1:
        raise Unreadable("the capture has no nanosecond times")
    link = struct.unpack(order + "I", data[20:24])[0] & 0x0FFFFFFF
    skip = {1: 14, 113: 16, 276: 20}.get(link)
    if skip is None:
        raise Unreadable(f"link type {link} is not one this reader knows")
    at, head = 24, struct.Struct(order + "IIII")
    while at + 16 <= len(data):
        s, ns, kept, real = head.unpack_from(data, at)
        at += 16
        frame = data[at:at + kept]
        at += kept
        if kept < real or len(frame) < skip + 40:
            if kept < real:
                raise Unreadable("a packet was cut by the capture")
            continue
        ip = frame[skip:]
        if ip[0] >> 4 != 4 or ip[9] != 6:
            continue
        ihl, total = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big")
        tcp = ip[ihl:total] if total else ip[ihl:]  # a length of 0 stands for a large offloaded packet
        source, dest, seq = struct.unpack_from(">HHI", tcp)
        yield s * 1_000_000_000 + ns, source, dest, seq, tcp[13], tcp[(tcp[12] >> 4) * 4:]


class Direction:
    """One direction of a connection: its bytes in order, and the packet that first brought each."""

    def __init__(self, isn):
        self.base = (isn + 1) & 0xFFFFFFFF
        self.segments = []

    def assemble(self):
        """Bytes, end offsets and times of the packets that advanced the stream; copies; whether there is a hole."""
        out, ends, times, copies, seen = bytearray(), [], [], 0, {}
        for t, seq, payload in sorted(self.segments, key=lambda s: ((s[1] - self.base) & 0xFFFFFFFF, s[0])):
            start = (seq - self.base) & 0xFFFFFFFF
            copies += (start, len(payload)) in seen
            seen[(start, len(payload))] = t
            if start > len(out):
                return bytes(out), ends, times, copies, True
            fresh = payload[len(out) - start:]
            if fresh:
                out += fresh
                ends.append(len(out))
                times.append(t)
        return bytes(out), ends, times, copies, False


def connections(path, server_port):
    """[(the client's port, to the server, from the server)] in order of their SYN, and the number of packets."""
    open_now, all_of_them, n = {}, [], 0
    for t, source, dest, seq, flags, payload in packets(path):
        n += 1
        from_server = source == server_port
        client = dest if from_server else source
        if flags & 0x02:
            if not from_server:
                open_now[client] = [client, Direction(seq), None]
                all_of_them.append(open_now[client])
            elif client in open_now:
                open_now[client][2] = Direction(seq)
            continue
        pair = open_now.get(client)
        if payload and pair and pair[2]:
            pair[1 + from_server].segments.append((t, seq, payload))
    return [(client, up, down) for client, up, down in all_of_them if down], n


def nonce_of(asked):
    """The first word of the prompt; of a chat that goes on, of the last message of its user."""
    if "messages" not in asked:
        return asked["prompt"].split()[0]
    of_user = [message for message in asked["messages"] if message["role"] == "user"]
    return (of_user[-1] if len(of_user) > 1 else asked["messages"][0])["content"].split()[0]


def requests_in(stream):
    """(nonce or None, offset of the last byte) of each request."""
    at = 0
    while (end := stream.find(b"\r\n\r\n", at)) >= 0:
        head, body = stream[at:end].lower(), end + 4
        length = 0
        for line in head.split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        at = body + length
        if at > len(stream):
            return
        nonce = None
        if length:
            asked = json.loads(stream[body:at])
            nonce = nonce_of(asked)
        yield nonce, at - 1


def replies_in(stream):
    """For each reply, (token events as offsets of their last byte, whole?)."""
    at = 0
    while (end := stream.find(b"\r\n\r\n", at)) >= 0:
        head, at = stream[at:end].lower(), end + 4
        if b"transfer-encoding: chunked" not in head:
            length = next((int(h[15:]) for h in head.split(b"\r\n") if h.startswith(b"content-length:")), None)
            if length is None:
                return
            at += length
            yield [], True
            continue
        text, starts, places, whole = bytearray(), [], [], False
        while (eol := stream.find(b"\r\n", at)) >= 0:
            size = int(stream[at:eol].split(b";")[0], 16)
            at = eol + 2
            if size == 0:
                at += 2
                whole = True
                break
            starts.append(len(text))
            places.append(at)
            text += stream[at:at + size]
            at += size + 2
        tokens, begin = [], 0
        while (blank := text.find(b"\n\n", begin)) >= 0:
            event, begin = bytes(text[begin:blank]), blank + 2
            if not event.startswith(b"data: {"):
                continue
            choices = json.loads(event[6:]).get("choices") or []
            if any(c.get("text") or (c.get("delta") or {}).get("content") for c in choices):
                piece = bisect.bisect_right(starts, blank + 1) - 1
                tokens.append(places[piece] + blank + 1 - starts[piece])
        yield tokens, whole
        if not whole:
            return


class Exchange:
    """The packets of one request and its reply."""

    def __init__(self, sent, came):
        self.sent = sent  # time of the packet with the request's last byte
        self.came = came  # for each token event, the number of the packet with its last byte
        self.times = []  # of every packet with data from the server on that connection


def exchanges(path, server_port):
    """nonce -> Exchange in plain HTTP/1.1, the number of holes in the capture, and what it holds in words."""
    found, holes, copies = {}, 0, 0
    conns, n = connections(path, server_port)
    for _, up, down in conns:
        sent, sent_ends, sent_times, copies_up, hole_up = up.assemble()
        came, came_ends, came_times, copies_down, hole_down = down.assemble()
        holes += hole_up + hole_down
        copies += copies_up + copies_down
        for (nonce, last), (tokens, whole) in zip(requests_in(sent), replies_in(came)):
            if nonce is not None and whole:
                exchange = Exchange(
                    sent_times[bisect.bisect_right(sent_ends, last)],
                    [bisect.bisect_right(came_ends, offset) for offset in tokens])
                exchange.times = came_times
                found[nonce] = exchange
    told = f"{n} packets, {len(conns)} connections, {len(found)} whole exchanges, {copies} copies or retransmissions, {holes} holes"
    return found, holes, told
