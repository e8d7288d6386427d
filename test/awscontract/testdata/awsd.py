"""Runs aws commands without starting Python anew for each.

Most of the time of an aws command goes into loading its own code. This loads it
once and then forks for every command, which is handed over on a socket: its
arguments, environment and working directory as JSON, and its three standard
streams as descriptors. The answer is the exit code.
"""

import json
import os
import socket
import sys
import threading
import traceback

import awscli.clidriver
import awscli.customizations.commands  # noqa: F401
import botocore.parsers  # noqa: F401
import botocore.serialize  # noqa: F401


def run(command, streams):
    """Becomes the command; does not return."""
    code = 255
    try:
        for target, fd in enumerate(streams):
            os.dup2(fd, target)
        os.chdir(command["dir"])
        loaded = {k: v for k, v in os.environ.items() if k == "AWS_DATA_PATH"}  # awscli sets it when it is loaded
        os.environ.clear()
        os.environ.update(command["env"] | loaded)
        sys.argv = ["aws"] + command["args"]
        code = awscli.clidriver.main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # whatever it is, the command has failed and must say why
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                pass
        os._exit(code if isinstance(code, int) else 0)


def wait(pid, conn):
    _, status = os.waitpid(pid, 0)
    try:
        conn.sendall(b"%d" % os.waitstatus_to_exitcode(status))
    finally:
        conn.close()


def main():
    receive = socket.recv_fds  # since Python 3.9; without it there is no server
    server = socket.socket(socket.AF_UNIX)
    server.bind(sys.argv[1])
    server.listen(16)
    print("ready", flush=True)
    while True:
        conn, _ = server.accept()
        data, fds, _, _ = receive(conn, 1 << 20, 3)
        while not data.endswith(b"\n"):
            data += conn.recv(1 << 20)
        pid = os.fork()
        if pid == 0:
            server.close()
            run(json.loads(data), fds)
        for fd in fds:
            os.close(fd)
        threading.Thread(target=wait, args=(pid, conn), daemon=True).start()


main()
