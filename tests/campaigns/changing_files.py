"""Files that change while they are read: ``python tests/campaigns/changing_files.py 2000``.

Files of all formats are read twice, from the disk, from servers with and without ranges, ETags and
times, honest ones and others, and from another file system of fsspec. At random moments they are
truncated, rewritten, replaced, appended to and deleted, and connections break off. Whatever
happens, reading gives exactly the rows of one version, in both passes, or an error.
"""

import argparse
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from streams.versions import CHANGES, FOLDER, FORMATS, PARTS, options_for, read, write
from streams.web import Site, a_site

from maxmargin import streams
from maxmargin.streams import addresses, remote

CHANGED = "changed while it was being read"
ANNOUNCED = "bytes were announced, but there are"
WEB = [name for name in FORMATS if not name.endswith((".npy", ".npz"))]
SIZES = {"RANGE": 3000, "LEAST_RANGE": 500, "HEAD": 2000, "PIECE": 900}


@dataclass
class Outcome:
    counts: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)


class Trial:
    """One file, read twice, while something happens to it."""

    def __init__(self, folder: Path, site: Site, seed: list[int]) -> None:
        self.random = np.random.default_rng(seed)
        self.folder, self.site = folder, site
        self.block_size = int(self.random.choice([700, 1500, 4000, 2**20]))
        self.contents = list[dict[str, bytes]]()  # all that the file, or the folder, has been
        self.what = ""

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def one_of(self, choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def run(self) -> Any:
        """The rows of both passes."""
        return self.one_of([self.local, self.web, self.web, self.memory])()

    # --------------------------------------------------------------------------------- what happens
    def passes(self, place: Any, happens: Any) -> list[np.ndarray]:
        """Read twice; ``happens`` is called at some moments, of which there are many."""
        left = int(self.random.integers(1, 25))
        times = int(self.one_of([0, 1, 1, 1, 2]))

        def moment() -> None:
            nonlocal left, times
            left -= 1
            if left <= 0 and times:
                left, times = int(self.random.integers(1, 8)), times - 1
                happens()

        moment()
        beside = options_for(place) if isinstance(place, Path) else {}
        source, found = streams.open(place, block_size=self.block_size, **beside), []
        moment()
        if self.chance(0.3):
            source.survey()
            moment()
        for _ in range(2):
            found.append(read(Moments(source, moment)))
            moment()
        return found

    def local(self) -> Any:
        name = self.one_of([*FORMATS, FOLDER])
        path = self.folder / name
        file = write(path, name, 0)
        if name == FOLDER and self.chance(0.5):
            file = path / PARTS[0]
        self.remember(path)
        change = self.one_of(CHANGES)
        self.what = f"local, {change.__name__}"
        form = "rows.parquet" if name == FOLDER else name

        def happens() -> None:
            if file.exists():
                change(file, FORMATS[form](int(self.random.integers(4, 9))))
                self.remember(path)

        return self.passes(path, happens)

    def remember(self, path: Path) -> None:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        self.contents.append({each.name: each.read_bytes() for each in files if each.exists()})

    def web(self) -> Any:
        site, name = self.site, self.one_of(WEB)
        site.behave()
        site.tags = self.one_of([True, True, "weak", False])
        site.modified, site.obeys = self.chance(0.5), self.chance(0.5)
        site.ranges, site.lengths = self.chance(0.7), self.chance(0.9)
        contents = [FORMATS[name](0)]
        # Without any tag, what comes back cannot be told from what was there all the time.
        is_tagged = bool(site.tags or site.modified)
        for version in range(1, 1 + int(self.one_of([0, 1, 1, 2]))):
            content = FORMATS[name](version)
            how = self.random.random()
            if how < 0.2:
                content = content[: int(len(content) * self.random.random())]
            elif how < 0.3:
                content += content[-40:]
            elif how < 0.4 and is_tagged:
                content = contents[0]
            contents.append(content)
        self.contents = [{name: content} for content in contents]
        self.what = f"web, {'ranges' if site.ranges else 'no ranges'}"
        self.what += ", " + ("tags" if is_tagged else "no tags")
        if self.chance(0.15):
            site.announced = int(len(contents[0]) * self.one_of([0.3, 0.99, 1.01, 1.5]))
            self.what += ", wrong length"
        site.files, later = {name: contents[0]}, [{name: each} for each in contents[1:]]
        if self.chance(0.1):
            later.append({})

        def happens() -> None:
            if later:
                site.files = later.pop(0)

        if self.chance(0.6):  # by the number of requests, not by blocks
            for files in later:
                site.changes += [None] * int(self.random.integers(0, 12)) + [files]
            later = []
        if self.chance(0.4):
            choices = [None, None, None, "cut", 503]
            site.troubles = [self.one_of(choices) for _ in range(int(self.random.integers(20)))]
        return self.passes(site.url(name), happens)

    def memory(self) -> Any:
        name, files = self.one_of([*WEB, FOLDER]), fsspec.filesystem("memory")
        form, version = "rows.parquet" if name == FOLDER else name, 0
        names = [f"{name}/{part}" for part in PARTS] if name == FOLDER else [name]
        self.what = "memory"

        def put() -> None:
            nonlocal version
            for each in names:
                files.pipe_file(f"/changing/{each}", FORMATS[form](version))
                version += 1
                there = files.find("/changing")
                content = {path.rpartition("/")[2]: files.cat_file(path) for path in there}
                self.contents.append(content)

        put()
        try:
            return self.passes(f"memory://changing/{name}", put)
        finally:
            files.rm("/changing", recursive=True)

    # ------------------------------------------------------------------------------------ judgement
    def versions(self) -> list[np.ndarray]:
        """The rows of all that the file has been, as far as they can be read."""
        found = []
        for number, contents in enumerate(self.contents):
            place = self.folder / f"version {number}"
            place.mkdir()
            for name, content in contents.items():
                (place / name).write_bytes(content)
            paths = sorted(place.iterdir())
            is_folder = {*PARTS} & {path.name for path in paths}
            try:
                path = place if is_folder else paths[0]
                found.append(read(streams.open(path, **options_for(path))))
            except (ValueError, OSError, IndexError):
                continue
        return found


class Moments:
    """The blocks of a source, with something between them."""

    def __init__(self, source: streams.Source, moment: Any) -> None:
        self.source, self.moment = source, moment

    def blocks(self) -> Any:
        for block in self.source.blocks():
            self.moment()
            yield block


def judged(trial: Trial) -> tuple[str, str]:
    """What came of a trial, and what is wrong with that, if anything."""
    try:
        passes = trial.run()
    except streams.StreamError as error:
        if CHANGED in str(error):
            return "changed", ""
        return ("another length" if ANNOUNCED in str(error) else "another error"), ""
    except (ValueError, OSError):
        return "another error", ""
    for version in trial.versions():
        if all(np.array_equal(rows, version) for rows in passes):
            return "one version", ""
    return "MIXED", "the rows are those of no version"


def campaign(count: int, seed: int, folder: Path) -> Outcome:
    """Read ``count`` files."""
    found = Outcome()
    before = {name: getattr(remote, name) for name in SIZES}, addresses.FIRST_PAUSE_SECONDS
    try:
        for name, size in SIZES.items():
            setattr(remote, name, size)
        addresses.FIRST_PAUSE_SECONDS = 0.001
        with a_site() as site, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k in range(count):
                place = folder / f"{k}"
                place.mkdir()
                trial = Trial(place, site, [seed, k])
                outcome, trouble = judged(trial)
                found.counts[f"{trial.what}: {outcome}"] += 1
                found.counts[outcome] += 1
                if trouble:
                    found.troubles.append(f"{trial.what}, number {k}: {trouble}")
                shutil.rmtree(place)
    finally:
        sizes, addresses.FIRST_PAUSE_SECONDS = before
        for name, size in sizes.items():
            setattr(remote, name, size)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="changing") as folder:
        found = campaign(given.count, given.seed, Path(folder))
    for name, count in sorted(found.counts.items()):
        print(f"{count:8,} {name}")
    print(f"{given.count:,} files, {len(found.troubles)} troubles")
    print("\n".join(found.troubles[:20]))
    return int(bool(found.troubles))


if __name__ == "__main__":
    sys.exit(main())
