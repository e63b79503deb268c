"""A disk that fills up under a server: ``python tests/campaigns/full_disks.py 50``.

The disk is a small one of its own, ext4 in a file or tmpfs by turns, which takes root; else a limit
on the size of the server's files stands for it (``--way``). While it is full, events are answered
with 503 and predictions are still made; some servers are killed and started again meanwhile. By the
way "read-only" the disk becomes one that can only be read, as ext4 does after an error: then a
server does not start, and goes on when the disk is mounted anew. Nothing that was acknowledged is
lost, and the model is that of the log, to the bit.
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

from campaigns.kills import Outcome, Run
from serve.learners import KINDS
from zygote import Zygote

SIZE = 8 << 20
TIMES_FULL = 2  # in each run
WAYS = ("ext4", "tmpfs", "read-only", "limit")


@contextmanager
def small_disk(way: str, folder: Path) -> Iterator[Path]:
    place = folder / "disk"
    place.mkdir()
    if way == "limit":
        yield place
        return
    if way in ("ext4", "read-only"):
        image = folder / "image"
        with image.open("wb") as file:
            file.truncate(SIZE)
        subprocess.run(
            ["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", image], check=True
        )
        command = ["mount", "-o", "loop", image, place]
    else:
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", place]
    subprocess.run(command, check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


class Disk:
    """That can be filled and emptied."""

    def __init__(self, way: str, place: Path, run: Run) -> None:
        self.way, self.place, self.run = way, place, run
        self.ballast = place / "ballast"

    def fill(self) -> None:
        """Up to some bytes, so that the end comes in the midst of something."""
        left = self.run.chance.choice((0, 0, self.run.chance.randrange(20_000)))
        if self.way == "limit":
            self.limit(left + 64)
            return
        if self.way == "read-only":
            subprocess.run(["mount", "-o", "remount,abort", self.place], check=True)
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
        elif self.way == "read-only":
            subprocess.run(["umount", self.place], check=True)
            image = self.place.with_name("image")
            subprocess.run(["mount", "-o", "loop", image, self.place], check=True)
        else:
            self.ballast.unlink()

    def limit(self, size: int) -> None:
        most = resource.RLIM_INFINITY
        resource.prlimit(self.run.server.process.pid, resource.RLIMIT_FSIZE, (size, most))


def filled(run: Run, disk: Disk) -> Outcome:
    chance, counts, troubles = run.chance, run.outcome.counts, run.outcome.troubles
    with run:
        for _ in range(TIMES_FULL):
            time.sleep(chance.uniform(0.1, 0.6))
            disk.fill()
            counts["times full"] += 1
            counts["times nothing more was taken"] += stuck(run)
            row, _ = run.kind.problem.row(chance)
            asked = run.server.asks("POST", "/predict", {"row": row})
            if asked.status != 200:
                troubles.append(f"a prediction while the disk is full: {asked}")
            if disk.way == "read-only":
                end(run)
                disk.free()
                run.server.start()
            elif disk.way != "limit" and chance.random() < 0.4:
                counts["kills while full"] += 1
                run.server.kill()
                if chance.random() < 0.5:
                    run.server.start()
                    time.sleep(chance.uniform(0.0, 0.5))
                    disk.free()
                else:
                    disk.free()
                    run.server.start()
            else:
                disk.free()
            run.server.wait_until_healthy()
        time.sleep(0.2)
        return run.finish()


def end(run: Run) -> None:
    """Kill or stop a server on a disk that can only be read; it does not start there again."""
    if run.chance.random() < 0.5:
        run.outcome.counts["kills while read-only"] += 1
        run.server.kill()
    elif code := run.server.stop():
        run.outcome.troubles.append(f"SIGTERM while the disk is read-only: ended with {code}")
    run.server.spawn()
    if line := run.server.first_line():
        run.outcome.troubles.append(f"it starts on a disk that is read-only: {line}")
    if "needs a disk that can be written to" not in run.server.log.read_text()[-500:]:
        run.outcome.troubles.append("it does not say that the disk is read-only")
    run.server.end()


def stuck(run: Run) -> bool:
    """Wait until nothing is acknowledged any more; False if that does not come."""
    end = time.monotonic() + 300.0
    while time.monotonic() < end:
        before = sum(len(each.done) for each in run.clients), sum(each.busy for each in run.clients)
        time.sleep(0.3)
        after = sum(len(each.done) for each in run.clients), sum(each.busy for each in run.clients)
        if after[0] == before[0] and after[1] > before[1]:
            return True
    return False


def fill_disks(
    runs: int, seed: int, folder: Path, ways: tuple[str, ...], zygote: Zygote | None = None
) -> Outcome:
    whole, kinds = Outcome(), list(KINDS)
    for number in range(runs):
        way, name = ways[number % len(ways)], kinds[number // len(ways) % len(kinds)]
        place = folder / f"run {number}"
        place.mkdir()
        with small_disk(way, place) as disk:
            run = Run(KINDS[name], place, seed + number, disk=disk, zygote=zygote)
            if way == "read-only":
                run.server.log = place / "server.log"
            outcome = filled(run, Disk(way, disk, run))
        whole.add(outcome, f"{way}, {name}", place)
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--way", choices=WAYS, action="append")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="disks"))
    usual = ("ext4", "tmpfs", "read-only") if os.geteuid() == 0 else ("limit",)
    whole = fill_disks(given.runs, given.seed, folder, tuple(given.way or usual))
    return whole.report(folder)


if __name__ == "__main__":
    sys.exit(main())
