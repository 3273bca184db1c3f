"""What each process imports, and what it must never import."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_after(code: str) -> set[str]:
    probe = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("code", "never"),
    [
        ("import agent.__main__, agent.engine, agent.workers.workshop, agent.doctor",
         {"torch", "litellm", "textual", "rich", "forge_tui"}),
        ("import agent.workers.builder", {"torch", "litellm", "textual", "sqlite_utils"}),
        ("import store.sessions, store.reading, store.commands",
         {"torch", "litellm", "textual", "sqlite_utils", "agent", "forge_tui"}),
        ("import store.writing, store.rebuild, store.machine, store.lease",
         {"torch", "litellm", "textual", "agent", "forge_tui"}),
        ("import forge_tui.cli", {"torch", "litellm", "textual", "rich", "sqlite_utils", "agent",
                                  "networkx", "asyncio"}),
        ("import forge_tui.app", {"torch", "litellm", "agent", "networkx"}),
    ],
)  # fmt: skip
def test_processes_stay_light(code: str, never: set[str]) -> None:
    assert loaded_after(code) & never == set()


def test_a_folder_named_agent_where_the_user_stands_is_not_run(tmp_path: object) -> None:
    folder = f"{tmp_path}/agent"
    subprocess.run(["mkdir", folder], check=True)
    with open(f"{folder}/__init__.py", "w") as file:
        file.write("raise SystemExit('the wrong agent')")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "agent"], cwd=str(tmp_path), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "usage" in done.stdout
    assert "wrong" not in done.stdout + done.stderr
