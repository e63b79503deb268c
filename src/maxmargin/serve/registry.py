"""Several models side by side, in the folders of one place that one process uses at a time."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxmargin.persistence.container import replacing
from maxmargin.serve.bodies import NAME
from maxmargin.serve.event_log import PLAIN, content_of
from maxmargin.serve.limits import Limits
from maxmargin.serve.service import SNAPSHOT, Service, make_private
from maxmargin.serve.snapshots import Beginning

DEFAULT, LOCK = "default", "lock"
# The file with the name of the model that routes without a name are for; no model is called that.
CHOICE = ".default"
# What systems say of disks that nothing can be written to.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Models:
    """The services of a folder, by their names.

    One of them is the default, for routes that name no model: the first that was named when the
    folder was begun, or the only one. Which one it is stands in the folder, and does not change
    when models are added; where it has several and does not say, none is.

    The folder is made if it is not there, and a second process with the same is refused. Models
    that it has already go on as they were, also those that ``beginnings`` does not name.
    """

    def __init__(
        self,
        folder: Any,
        beginnings: Mapping[str, Beginning],
        *,
        limits: Limits | None = None,
        shadows: dict[str, tuple[str, dict[str, Any]]] | None = None,
        **options: Any,
    ) -> None:
        self.folder = Path(folder)
        for name in beginnings:
            if not NAME.fullmatch(name) or name == LOCK:
                raise ValueError(f"a model cannot be called {name!r}.")
        for name in shadows or ():
            if not NAME.fullmatch(name):
                raise ValueError(f"a shadow cannot be called {name!r}.")
        self._lock = -1
        try:
            self._lock_folder()
            default, names = self._names(beginnings)
            self.services = {
                name: Service(
                    name,
                    self.folder / name,
                    beginnings.get(name),
                    limits=limits,
                    shadows=shadows,
                    **options,
                )
                for name in names
            }
        except BaseException as error:
            if self._lock >= 0:
                os.close(self._lock)
            if isinstance(error, OSError) and error.errno in UNWRITABLE:
                raise OSError(
                    error.errno,
                    f"{os.strerror(error.errno)}: a server writes down what it learns, and needs a "
                    "disk that can be written to and has room",
                    str(self.folder),
                ) from error
            raise
        self.default = None if default is None else self.services[default]

    def _lock_folder(self) -> None:
        make_private(self.folder)
        self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | PLAIN, 0o600)
        try:
            lock_file(self._lock)
        except OSError:
            raise ValueError(f"{self.folder} is in use by another process.") from None

    def _names(self, beginnings: Mapping[str, Beginning]) -> tuple[str | None, list[str]]:
        """The default model, if there is one, and all models, the default first."""
        names = [*dict.fromkeys([*beginnings, *states_in(self.folder)])]
        if not names:
            raise ValueError(f"{self.folder} has no model yet: name a model file or an algorithm.")
        known = default = self._known_default()
        if known not in names:
            # If the default is gone, its clients must not reach another model.
            is_clear = beginnings or (known is None and len(names) == 1)
            default = names[0] if is_clear else None
        if default is not None and default != known:
            with replacing(self.folder / CHOICE, new_mode=0o600) as file:
                file.write(default.encode())
        return default, sorted(names, key=lambda name: name != default)

    def _known_default(self) -> str | None:
        """The name of the default model that the folder knows."""
        path = self.folder / CHOICE
        if not os.path.lexists(path):
            return None
        known = content_of(path, 100).decode("utf-8", "replace")
        if not NAME.fullmatch(known):
            raise ValueError(f"{path}: it should hold the name of a model. Remove it.")
        return known

    def start(self) -> None:
        for service in self.services.values():
            service.start()

    def stop(self) -> None:
        for service in self.services.values():
            service.stop()

    def close(self) -> None:
        """Finish what has come, and let others use the folder."""
        self.stop()
        for service in self.services.values():
            service.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def lock_file(file: int) -> None:
    """Lock an open file until it is closed; raise OSError if another process has locked it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def states_in(folder: Path) -> list[str]:
    """The names of the models that a folder knows.

    A process that was killed while it replaced a snapshot has left the one before.
    """
    names = sorted({path.parent.name for path in folder.glob(f"*/{SNAPSHOT}*")})
    for name in names:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{folder} has a folder {name!r}, and a model cannot be called that: names are of "
                "letters, digits, '_', '.' and '-'. Rename it, or move it away."
            )
    return names
