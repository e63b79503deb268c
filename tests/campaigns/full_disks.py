"""A disk that fills up under a server: ``python tests/campaigns/full_disks.py 10``.

The disk is a small one of its own, ext4 in a file or tmpfs by turns, which takes root; else a limit
on the size of the server's files stands for it (``--way limit``). While it is full, events are
refused and predictions are made; some servers are killed and started again meanwhile. Nothing that
was acknowledged is lost, and the model is that of the events, to the bit.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.kills import KINDS, Outcome, Run, add, report

SIZE = 8 << 20
TIMES_FULL = 2  # in each run
WAYS = ("ext4", "tmpfs", "limit")


@contextmanager
def small_disk(way: str, folder: Path) -> Iterator[Path]:
    place = folder / "disk"
    place.mkdir()
    if way == "limit":
        yield place
        return
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", place]
    if way == "ext4":
        image = folder / "image"
        with image.open("wb") as file:
            file.truncate(SIZE)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
        command = ["mount", "-o", "loop", image, place]
    subprocess.run(command, check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


class Disk:
    """That can be filled and emptied."""

    def __init__(self, way: str, place: Path, run: Run) -> None:
        self.way, self.run, self.ballast = way, run, place / "ballast"

    def fill(self) -> None:
        """Up to some bytes, so that the end comes in the midst of something."""
        left = self.run.chance.choice((0, 0, self.run.chance.randrange(20_000)))
        if self.way == "limit":
            self.limit((self.run.data / "maxmargin.db-wal").stat().st_size + left)
            return
        with self.ballast.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1 << 8, 1):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue
            os.truncate(self.ballast, max(0, file.tell() - left))

    def free(self) -> None:
        if self.way == "limit":
            self.limit(resource.RLIM_INFINITY)
        else:
            self.ballast.unlink()

    def limit(self, size: int) -> None:
        most = resource.RLIM_INFINITY
        resource.prlimit(self.run.server.process.pid, resource.RLIMIT_FSIZE, (size, most))


def filled(run: Run, disk: Disk) -> Outcome:
    chance, counts, troubles = run.chance, run.outcome.counts, run.outcome.troubles
    with run:
        for _ in range(TIMES_FULL):
            run.wait_for(chance.randint(20, 100))
            disk.fill()
            counts["times full"] += 1
            counts["times nothing more was taken"] += stuck(run)
            row, _ = run.teachers[0].row()
            asked = run.server.asks("POST", "/predict", {"row": row})
            if asked.status != 200:
                troubles.append(f"a prediction while the disk is full: {asked}")
            if disk.way != "limit" and chance.random() < 0.5:
                counts["kills while full"] += 1
                run.server.kill()
                disk.free()
                run.server.start()
            else:
                disk.free()
            run.server.wait_until_healthy()
        run.wait_for(20)
        return run.finish()


def stuck(run: Run) -> bool:
    """Wait until nothing is acknowledged any more; False if that does not come."""
    end = time.monotonic() + 300.0
    while time.monotonic() < end:
        before = run.deeds()
        time.sleep(0.5)
        if run.deeds() == before:
            return True
    return False


def fill_disks(runs: int, seed: int, folder: Path, ways: tuple[str, ...]) -> Outcome:
    whole = Outcome()
    for number in range(runs):
        way, kind = ways[number % len(ways)], list(KINDS)[number // len(ways) % len(KINDS)]
        place = folder / f"run {number}"
        place.mkdir()
        with small_disk(way, place) as disk:
            run = Run(kind, place, seed + number, data=disk / "data")
            run.server.log = place / "server.log"
            add(whole, filled(run, Disk(way, disk, run)), f"{way}, {kind}")
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--way", choices=WAYS, action="append")
    given = parser.parse_args()
    usual = ("ext4", "tmpfs") if os.geteuid() == 0 else ("limit",)
    folder = Path(tempfile.mkdtemp(prefix="disks"))
    return report(fill_disks(given.runs, given.seed, folder, tuple(given.way or usual)), folder)


if __name__ == "__main__":
    sys.exit(main())
