#!/usr/bin/python3
"""Keeps the samples of one thread, for use between xw-decode and xw-report:

    xw-open --pid 1234 --watch counter | xw-decode | examples/thread.py 1235 | xw-report

Needs the Debian package python3-msgpack. It is meant to be copied: the rules that a filter should follow are in
FORMAT.md.
"""
import os
import signal
import sys

try:
    import msgpack
except ImportError:
    sys.exit("thread.py: needs the Debian package python3-msgpack, and the python3 of Debian")


def fail(message):
    print(f"thread.py: {message}", file=sys.stderr)
    sys.exit(1)


def records(fd):
    """Yields each record with the bytes that it came as, and None when the input may be idle."""
    unpacker = msgpack.Unpacker(strict_map_key=False, unicode_errors="surrogateescape", max_buffer_size=2 << 20)
    data, start = b"", 0  # bytes not yet unpacked, and their place in the stream
    while block := os.read(fd, 1 << 16):
        unpacker.feed(block)
        data += block
        used = 0
        for record in unpacker:
            if not isinstance(record, list) or not record:
                raise ValueError("a record that is no array")
            end = unpacker.tell() - start
            yield record, data[used:end]
            used = end
        data, start = data[used:], start + used
        yield None, b""


def keep(record, tid_at, tid):
    return record[0] != "sample" or record[tid_at] == tid


def run(tid, fd, out):
    ended, tid_at = False, None
    for record, raw in records(fd):
        if record is None:
            out.flush()
            continue
        if tid_at is None:
            if record[0] != "xw" or record[2] != "events":
                fail("the input is no events stream: put the filter after xw-decode")
            session = record[3]
            tid_at = 1 + session["sample_fields"].index("tid")  # fields follow the kind
            out.write(raw)
            out.write(msgpack.packb(["note", session["start_ns"], f"only samples of thread {tid} were kept"]))
        elif keep(record, tid_at, tid):
            out.write(raw)  # what is kept stays as it came: a kind that is new here is meant for someone else
        ended = record[0] == "end"
    out.flush()
    if not ended:
        fail("the input is truncated: it has no end record")


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        print("usage: thread.py TID", file=sys.stderr)
        sys.exit(2)
    # Ctrl-C reaches the whole pipe. A filter goes on until its input ends, so that the report is printed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run(int(sys.argv[1]), sys.stdin.fileno(), sys.stdout.buffer)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit would fail again
    except (msgpack.UnpackException, ValueError, LookupError) as error:
        fail(f"the input is no stream, or no longer one: {error!r}")


if __name__ == "__main__":
    main()
