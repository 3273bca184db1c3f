"""What can go wrong in the store, each with a message and a cure.

::

    StoreError
    ├── FolderError        the data folder cannot be made or written
    ├── SessionNotFound    no session has that name, or several do
    ├── SessionDamaged     the file is not a session, or SQLite cannot read it
    ├── SessionTooNew      a newer forge-tui wrote it
    ├── SessionBusy        another engine holds its lock
    └── EventError         an event does not fit the catalogue (a fault of ours)
"""

from __future__ import annotations


class StoreError(Exception):
    """A fault of the store that a person can act on.

    Args:
        message: What happened and where, in one line.
        cure: What to do about it, in one line; may be empty.
    """

    code = "store"

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure


class FolderError(StoreError):
    """The data folder cannot be made, read or written."""

    code = "folder"


class SessionNotFound(StoreError):
    """No session, or more than one, answers to a name."""

    code = "session-not-found"


class SessionDamaged(StoreError):
    """The file is not a session, or SQLite cannot read it."""

    code = "session-damaged"


class SessionTooNew(StoreError):
    """A newer forge-tui wrote the file."""

    code = "session-too-new"


class SessionBusy(StoreError):
    """Another engine holds the session's lock."""

    code = "session-busy"


class EventError(StoreError):
    """An event does not fit the catalogue."""

    code = "event"
