"""Several models side by side, in the folders of one place that one process uses at a time."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxmargin.serve.limits import Limits
from maxmargin.serve.service import SNAPSHOT, Beginning, Service, make_private

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
DEFAULT, LOCK = "default", "lock"


class Models:
    """The services of a folder, by their names; the first one answers where none is named.

    Parameters
    ----------
    folder : path
        Made if it is not there. A second process with the same is refused.
    beginnings : dict of str to Beginning
        Models to begin with; those that the folder knows already go on as they were, also those
        that are not named.
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
        make_private(self.folder)
        self._lock = os.open(
            self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        self.services: dict[str, Service] = {}
        try:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(f"{self.folder} is in use by another process.") from None
            names = dict.fromkeys([*beginnings, *states_in(self.folder)])
            if not names:
                raise ValueError(
                    f"{self.folder} has no model yet: say which to begin with, or an algorithm."
                )
            for name in names:
                self.services[name] = Service(
                    name,
                    self.folder / name,
                    beginnings.get(name),
                    limits=limits,
                    shadows=shadows,
                    **options,
                )
        except BaseException:
            os.close(self._lock)
            raise

    def start(self) -> None:
        for service in self.services.values():
            service.start()

    def stop(self) -> None:
        """Take nothing more."""
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
