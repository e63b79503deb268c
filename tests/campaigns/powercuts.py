"""Power cuts, simulated: what was written after the last fsync of a file is lost at random.

A killed process leaves in the cache of the system what it wrote; a machine without power does not.
A library that is loaded first (LD_PRELOAD) copies each file when it has been synced. `cut` then
makes every sector of a file what it was at the last fsync, or what was written since, at random;
and so its length. Files that were never synced may be empty. That files vanish from folders, and
that a disk reports a sync too early, is not simulated.
"""

import random
import shutil
import subprocess
from pathlib import Path

SECTOR = 512
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int copied(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(fd);
    const char *folder = getenv("SYNCED_COPIES");
    char link[64], path[4096], part[4200], target[4200], buffer[65536];
    struct stat found;
    if (result || !folder || fstat(fd, &found) || !S_ISREG(found.st_mode)) return result;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) abort();
    path[size] = 0;
    snprintf(target, sizeof target, "%s/%s", folder, strrchr(path, '/') + 1);
    snprintf(part, sizeof part, "%s.part", target);
    int copy = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (copy < 0) abort();
    for (off_t at = 0; (size = pread(fd, buffer, sizeof buffer, at)) > 0; at += size)
        if (write(copy, buffer, size) != size) abort();
    close(copy);
    if (rename(part, target)) abort();
    return result;
}

int fsync(int fd) { return copied("fsync", fd); }
int fdatasync(int fd) { return copied("fdatasync", fd); }
"""


def library(folder: Path) -> Path:
    """The compiled library."""
    (folder / "copies.c").write_text(SOURCE)
    made = folder / "copies.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, folder / "copies.c", "-ldl"], check=True)
    return made


def environment(library: Path, copies: Path) -> dict[str, str]:
    copies.mkdir(exist_ok=True)
    return {"LD_PRELOAD": str(library), "SYNCED_COPIES": str(copies)}


def cut(data: Path, copies: Path, chance: random.Random) -> int:
    """Lose what was not synced; the number of sectors that were."""
    lost = 0
    for path in data.iterdir():
        if path.name.endswith("-shm"):  # shared memory; SQLite makes it again
            path.unlink()
            continue
        copy = copies / path.name
        safe, written = copy.read_bytes() if copy.exists() else b"", path.read_bytes()
        share = chance.choice((0.0, 0.5, 1.0, chance.random()))
        size = chance.choice((len(safe), len(written)))
        result = bytearray(size)
        for at in range(0, size, SECTOR):
            old, new = safe[at : at + SECTOR], written[at : at + SECTOR]
            chosen = (old if chance.random() < share else new) or old or new
            lost += chosen != new
            result[at : at + len(chosen)] = chosen
        path.write_bytes(result[:size])
        shutil.copyfile(path, copy)  # what is there after a power cut is on the disk
    return lost
