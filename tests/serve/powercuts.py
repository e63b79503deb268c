"""Disks that forget, after a kill, what nobody asked them to keep.

A killed process leaves in the cache of the system what it wrote, a machine without power does not.
A library that is loaded first notes what was synced; `forget` then cuts files down to somewhere
between that and what was written, and removes those whose folder was not synced since.
"""

import os
import random
import subprocess
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void note_folder(int journal, int fd, struct stat *seen) {
    char *text = NULL; size_t size = 0;
    FILE *lines = open_memstream(&text, &size);
    DIR *folder = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY));
    fprintf(lines, "folder %lu", (unsigned long)seen->st_ino);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            fprintf(lines, "\t%s", entry->d_name);
    fprintf(lines, "\n");
    fclose(lines);
    if (folder) closedir(folder);
    if (write(journal, text, size) < 0) abort();
    free(text);
}

static int noted(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat before;
    int known = fstat(fd, &before) == 0, result = real(fd);
    const char *path = getenv("SYNC_JOURNAL");
    if (result == 0 && known && path) {
        int journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (journal < 0) abort();
        if (S_ISDIR(before.st_mode)) note_folder(journal, fd, &before);
        else {
            char line[80];
            int size = snprintf(line, sizeof line, "file %lu %lu\n", (unsigned long)before.st_ino,
                                (unsigned long)before.st_size);
            if (write(journal, line, size) < 0) abort();
        }
        close(journal);
    }
    return result;
}

int fsync(int fd) { return noted("fsync", fd); }
int fdatasync(int fd) { return noted("fdatasync", fd); }
"""


def library(folder: Path) -> Path:
    """Compile it."""
    source, made = folder / "syncs.c", folder / "syncs.so"
    source.write_text(SOURCE)
    command = ["cc", "-shared", "-fPIC", "-O1", "-w", "-o", made, source, "-ldl"]
    subprocess.run(command, check=True)
    return made


def environment(made: Path, journal: Path) -> dict[str, str]:
    return {"LD_PRELOAD": str(made), "SYNC_JOURNAL": str(journal)}


def forget(folder: Path, journal: Path, chance: random.Random) -> int:
    """Lose what was not synced, or a part of it; how many files were changed."""
    sizes, listed = _read(journal)
    changed = 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        told, seen = path.stat(), listed.get(path.parent.stat().st_ino, set())
        synced = sizes.get(told.st_ino, 0)
        if path.name not in seen and chance.random() < 0.5:
            path.unlink()
        elif synced < told.st_size:
            os.truncate(path, chance.choice((synced, chance.randint(synced, told.st_size))))
        else:
            continue
        changed += 1
    _note_all(folder, journal)
    return changed


def _note_all(folder: Path, journal: Path) -> None:
    """What is there when the power comes back is on the disk."""
    with journal.open("a") as lines:
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir():
                names = "".join(f"\t{each.name}" for each in path.iterdir())
                lines.write(f"folder {path.stat().st_ino}{names}\n")
            else:
                lines.write(f"file {path.stat().st_ino} {path.stat().st_size}\n")


def _read(journal: Path) -> tuple[dict[int, int], dict[int, set[str]]]:
    sizes: dict[int, int] = {}
    listed: dict[int, set[str]] = {}
    for line in journal.read_text().splitlines() if journal.exists() else []:
        kind, _, rest = line.partition(" ")
        if kind == "file":
            number, size = map(int, rest.split())
            sizes[number] = size
        else:
            number, *names = rest.split("\t")
            listed[int(number)] = set(names)
    return sizes, listed
