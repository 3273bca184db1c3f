"""litellm makes no noise, and looks nothing up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.agent.model_server import Fails, Request, Says, fails, says, serving

ROOT = Path(__file__).parents[4]


def run(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", code, *args],
        capture_output=True, text=True, check=False, timeout=120, cwd=ROOT,
    )  # fmt: skip


_NO_NET = """
import socket, sys
def refuse(event, args):
    if event in ("socket.getaddrinfo", "socket.connect"):
        print("looked up", args)
sys.addaudithook(refuse)
"""


def test_importing_it_asks_nobody_and_reads_no_file_of_the_user(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SOME_KEY_OF_ENV=yes\n")
    code = _NO_NET + (
        "import os; sys.path.insert(0, os.getcwd()); os.chdir(sys.argv[1])\n"
        "from agent.writers.llm.quiet import litellm\n"
        "lib = litellm()\n"
        "assert lib is litellm()\n"
        "assert 'SOME_KEY_OF_ENV' not in os.environ\n"
        "assert not lib.callbacks and not lib.success_callback and not lib.drop_params\n"
    )
    done = run(code, str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_price_list_is_read_without_importing_it() -> None:
    code = (
        "import sys\nfrom agent.writers.llm.client import Model, ModelClient\n"
        "assert ModelClient(Model('gpt-5')).price is not None\n"
        "assert 'litellm' not in sys.modules\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr


_CALLS = """
import asyncio, sys, warnings
from agent.errors import ModelError
from agent.writers.ask import Prompt
from agent.writers.llm.client import Model, ModelClient

async def main():
    client = ModelClient(Model.of({"name": "openai/test", "api_base": sys.argv[1]}))
    for _ in range(6):
        try:
            await client.ask(Prompt("a", "b"), 100, lambda channel, text: None)
        except ModelError as error:
            print(error.code)
        else:
            print("reply")

asyncio.run(main())
"""


def test_calls_and_faults_say_nothing_of_their_own() -> None:
    steps: list[Says | Fails] = [
        says("yes"), says("x", drop=True), fails(500), fails(429), says("x", usage="none"),
        says("half", error={"message": "Overloaded"}),
    ]  # fmt: skip

    def script(request: Request) -> Says | Fails:
        return steps[request.number]

    with serving(script) as server:
        done = run(_CALLS, server.url)
    assert done.stdout.split() == [
        "reply", "model-dropped", "model-server", "model-rate", "reply", "model-server",
    ]  # fmt: skip
    assert done.stderr == ""


def test_other_processes_cannot_read_the_memory_and_children_are_as_ever() -> None:
    code = (
        "import ctypes, os, subprocess, sys\n"
        "from agent.writers.llm.quiet import hide_memory\n"
        "libc = ctypes.CDLL(None)\n"
        "assert libc.prctl(3, 0, 0, 0, 0) == 1\n"
        "assert hide_memory()\n"
        "assert libc.prctl(3, 0, 0, 0, 0) == 0\n"
        "open('/proc/self/mountinfo').read()\n"
        "open('/proc/self/status').read()\n"
        "os.listdir('/proc/self/fd')\n"
        "code = 'import ctypes, pathlib; assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 1;'\n"
        'code += \'pathlib.Path("/proc/self/oom_score_adj").write_text("500")\'\n'
        "subprocess.run([sys.executable, '-c', code], check=True)\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
