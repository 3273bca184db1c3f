"""Where things lie: the data folder, its sessions, the machine's own data, logs and caches."""

from __future__ import annotations

import os
from pathlib import Path

from store.errors import FolderError

SUFFIX = ".forge.db"
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "fuse.sshfs",
     "9p", "afs", "glusterfs", "fuse.glusterfs"}
)  # fmt: skip


def data_home() -> Path:
    """``$FORGE_HOME``, else ``$XDG_DATA_HOME/forge-tui``, else ``~/.local/share/forge-tui``."""
    if chosen := os.environ.get("FORGE_HOME"):
        return Path(chosen).expanduser().absolute()
    if base := os.environ.get("XDG_DATA_HOME"):
        return Path(base).expanduser().absolute() / "forge-tui"
    return Path.home() / ".local" / "share" / "forge-tui"


def sessions_folder(home: Path | None = None) -> Path:
    return (home or data_home()) / "sessions"


def samples_folder() -> Path:
    """The sessions that come with the package, for viewers: ``sample:NAME``."""
    return Path(__file__).parent / "samples"


def refuse_sample(path: Path) -> None:
    """Raise FolderError for a session that came with the package: nobody changes it."""
    if path.parent == samples_folder():
        raise FolderError(
            f"{path.name} is a sample, which is for looking at",
            "run it again as a session of your own: "
            f"forge-tui run TASK --replay sample:{path.name.removesuffix(SUFFIX)}",
        )


def machine_path(home: Path | None = None) -> Path:
    return (home or data_home()) / "machine.db"


def build_cache(home: Path | None = None) -> Path:
    return (home or data_home()) / "builds"


def log_path(session: Path) -> Path:
    """The log of a session's engine and workers, beside the session."""
    return session.with_name(session.name.removesuffix(SUFFIX) + ".log")


def lock_path(session: Path) -> Path:
    """The file whose ``flock`` says that an engine is alive."""
    return session.with_name(session.name.removesuffix(SUFFIX) + ".lock")


def writable_folder(path: Path) -> Path:
    """Make ``path`` if need be and return it.

    Raises:
        FolderError: It cannot be made, is no folder, or cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FolderError(
            f"{path} is in the way: it is no folder", "set FORGE_HOME to another folder"
        ) from None
    except OSError as error:
        raise FolderError(
            f"cannot make the data folder {path}: {error.strerror}",
            "set FORGE_HOME to a folder that you may write",
        ) from None
    if not os.access(path, os.W_OK | os.X_OK) or read_only_mount(path):
        raise FolderError(
            f"the data folder {path} cannot be written",
            "set FORGE_HOME to a folder that you may write",
        )
    return path


def read_only_mount(path: Path) -> bool:
    """Whether the file system is mounted read-only (root passes every access check)."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def network_file_system(path: Path) -> str | None:
    """The type of the network file system that ``path`` lies on, or None.

    WAL needs shared memory between processes, which network file systems do not give.
    """
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    best, kind = -1, ""
    place = str(path.absolute())
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].replace("\\040", " ")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), after.split()[0]
    return kind if kind in NETWORK_FILE_SYSTEMS else None
