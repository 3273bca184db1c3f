"""Writes the README's file tree from the first line of each module's docstring.

``python docs/file_tree.py`` brings README.md up to date; ``--check`` only says whether it is.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- tree: docs/file_tree.py -->\n```text\n", "```\n<!-- end of tree -->"
OTHERS = {
    "tests/": "mirrors the packages; tests/benchmarks/ holds what measures",
    "docs/": "figures, pictures, and the scripts that make them",
    "pyproject.toml": "dependencies, each with its reason; settings of the checks",
    "constraints.txt": "the versions that were tested together",
    "Makefile": "demo, test, check",
    ".ci/run": "what CI runs",
}


def line(path: Path, depth: int) -> str:
    """One file's line: its name and the first line of its docstring."""
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    name = "    " * depth + path.name
    return f"{name:<32} {doc.splitlines()[0].rstrip('.')}\n"


def folder(path: Path, depth: int) -> str:
    """A package's lines, its own first, then its modules, then its packages."""
    init = path / "__init__.py"
    doc = (ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or "").splitlines()[0]
    name = "    " * depth + path.name + "/"
    text = f"{name:<32} {doc.rstrip('.')}\n"
    modules = sorted(p for p in path.glob("*.py") if p.name != "__init__.py")
    text += "".join(line(module, depth + 1) for module in modules)
    inner = sorted(p.parent for p in path.glob("*/__init__.py"))
    return text + "".join(folder(package, depth + 1) for package in inner)


def tree() -> str:
    """The whole tree as the README shows it."""
    text = "".join(folder(ROOT / name, 0) for name in ("forge_tui", "store", "agent"))
    suite = sorted(path.stem for path in (ROOT / "agent" / "suite").glob("*.py"))
    text += f"{'    suite/':<32} {len(suite)} operators as ordinary task files, and index.toml\n"
    return text + "".join(f"{name:<32} {what}\n" for name, what in OTHERS.items())


def main() -> int:
    """Bring the README up to date, or check it."""
    readme = ROOT / "README.md"
    before = readme.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    _, _, tail = rest.partition(END)
    after = head + BEGIN + tree() + END + tail
    if "--check" in sys.argv[1:]:
        return int(before != after)
    readme.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
