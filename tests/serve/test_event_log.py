"""The log: what was appended is read again, whatever a crash has left behind it."""

import errno
import os
import shutil
import zlib
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("msgspec")

from maxmargin.serve import event_log as logs
from maxmargin.serve.event_log import FRAME, HEADER, Log, LogError, Record, read_log, segments_of

GROUPS = [[b"a"], [b"bb", b""], [b"c" * 300], [b"d", b"e", b"f"]]


def opened(folder, **options):
    folder.mkdir(exist_ok=True)
    log = Log(folder, **options)
    return log, list(log.recover(0))


def written(folder, groups=GROUPS, **options):
    log, _ = opened(folder, **options)
    ends = [HEADER.size]
    for group in groups:
        log.append(group)
        ends.append(ends[-1] + FRAME.size + sum(4 + len(each) for each in group))
    log.close()
    return ends


def records(groups=GROUPS):
    return [Record(k, each) for k, each in enumerate(chain(*groups), 1)]


def test_a_log_cut_at_any_byte_has_all_whole_frames_and_goes_on(tmp_path):
    ends = written(tmp_path / "log")
    (segment,) = segments_of(tmp_path / "log")
    data = segment.path.read_bytes()
    assert len(data) == ends[-1]
    for cut in range(len(data) + 1):
        folder = tmp_path / "cut"
        folder.mkdir()
        (folder / segment.path.name).write_bytes(data[:cut])
        kept = sum(end <= cut for end in ends) - 1
        wanted = records(GROUPS[: max(kept, 0)])
        assert list(read_log(folder)) == wanted
        log, found = opened(folder)
        assert found == wanted
        assert log.torn == cut - (ends[kept] if kept >= 0 else 0)
        log.append([b"more"])
        log.close()
        assert list(read_log(folder)) == [*wanted, Record(len(wanted) + 1, b"more")]
        shutil.rmtree(folder)


@pytest.mark.parametrize("tail", [b"\0" * 64, b"\xff" * 64, bytes(range(256)) * 3])
def test_what_is_no_frame_behind_the_last_one_is_cut_off(tmp_path, tail):
    written(tmp_path / "log")
    (segment,) = segments_of(tmp_path / "log")
    with open(segment.path, "ab") as file:
        file.write(tail)
    log, found = opened(tmp_path / "log")
    log.close()
    assert found == records()
    assert log.torn == len(tail)


def test_every_damaged_byte_before_whole_frames_is_an_error_that_names_it(tmp_path):
    ends = written(tmp_path / "log")
    (segment,) = segments_of(tmp_path / "log")
    data = segment.path.read_bytes()
    last = ends[-2]
    for place in range(last):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        segment.path.write_bytes(damaged)
        begin = max([0, *(end for end in ends if end <= place)])
        with pytest.raises(LogError, match=rf"{segment.path.name}.*(byte {begin:,},|version)"):
            opened(tmp_path / "log")
    assert segment.path.read_bytes() == damaged  # and nothing is changed


def test_damage_in_a_file_that_is_not_the_last_is_an_error(tmp_path):
    written(tmp_path / "log", segment_bytes=100)
    first, *_, last = segments_of(tmp_path / "log")
    assert first != last
    with open(first.path, "r+b") as file:
        file.truncate(first.path.stat().st_size - 1)
    with pytest.raises(LogError, match=first.path.name):
        opened(tmp_path / "log")


def test_a_missing_file_is_an_error(tmp_path):
    written(tmp_path / "log", [[b"x" * 50]] * 6, segment_bytes=60)
    segments = segments_of(tmp_path / "log")
    assert len(segments) == 6
    segments[2].path.unlink()
    with pytest.raises(LogError, match="event 4, and event 3 is expected"):
        opened(tmp_path / "log")
    segments[-1].path.unlink()
    with pytest.raises(LogError, match="ends with event 5, but the snapshot is one of event 6"):
        list(Log(tmp_path / "log").recover(6))


def test_files_rotate_and_those_that_a_snapshot_has_passed_are_dropped(tmp_path):
    log, _ = opened(tmp_path / "log", segment_bytes=60)
    for k in range(6):
        log.append([b"%d" % k * 50])
    assert [segment.first for segment in segments_of(log.folder)] == [1, 2, 3, 4, 5, 6]
    log.drop_until(3)
    assert [segment.first for segment in segments_of(log.folder)] == [4, 5, 6]
    log.drop_until(99)
    assert [segment.first for segment in segments_of(log.folder)] == [6]  # which goes on
    log.append([b"more"])
    log.close()
    assert [record.sequence for record in read_log(log.folder, 5)] == [6, 7]
    again = Log(log.folder)
    assert [record.sequence for record in again.recover(6)] == [7]
    again.close()


@settings(max_examples=30, deadline=None)
@given(
    groups=st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=4), max_size=8),
    cut=st.integers(0, 10**6),
    size=st.integers(30, 200),
)
def test_any_log_cut_anywhere_gives_back_a_beginning_of_its_groups(
    tmp_path_factory, groups, cut, size
):
    folder = tmp_path_factory.mktemp("any") / "log"
    ends = written(folder, groups, segment_bytes=size)
    *_, last = segments_of(folder)
    data = last.path.read_bytes()
    keep = cut % (len(data) + 1)
    last.path.write_bytes(data[:keep])
    found = list(read_log(folder))
    beginnings = [records(groups[:k]) for k in range(len(groups) + 1)]
    assert found in beginnings
    if keep == len(data):
        assert found == records(groups)
    assert len(ends) == len(groups) + 1


class Disk:
    """Stands between the log and the system: writes and fsyncs fail when they are told to."""

    def __init__(self, monkeypatch):
        self.room, self.broken = None, set()
        for name in ("write", "fdatasync", "ftruncate", "fsync"):
            monkeypatch.setattr(logs.os, name, self.standing_for(name, getattr(os, name)))

    def standing_for(self, name, real):
        def call(file, *rest):
            if name in self.broken:
                raise OSError(errno.EIO, "Input/output error")
            if name == "write" and self.room is not None:
                if self.room == 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                done = real(file, rest[0][: self.room])
                self.room -= done
                return done
            return real(file, *rest)

        return call


@pytest.mark.parametrize("room", [0, 1, 10, 30])
def test_a_full_disk_leaves_the_log_as_it_was(tmp_path, monkeypatch, room):
    log, _ = opened(tmp_path / "log")
    log.append([b"first"])
    disk = Disk(monkeypatch)
    disk.room = room
    with pytest.raises(OSError, match="No space"):
        log.append([b"x" * 50])
    assert list(read_log(log.folder)) == [Record(1, b"first")]
    disk.room = None
    assert log.append([b"second"]) == 2
    log.close()
    assert list(read_log(log.folder)) == [Record(1, b"first"), Record(2, b"second")]


@pytest.mark.parametrize("before", [[], [b"first"]])
def test_after_a_failed_fsync_events_go_to_a_new_file(tmp_path, monkeypatch, before):
    log, _ = opened(tmp_path / "log")
    for each in before:
        log.append([each])
    disk = Disk(monkeypatch)
    disk.broken = {"fdatasync"}
    with pytest.raises(OSError, match="Input/output"):
        log.append([b"lost"])
    disk.broken = {"ftruncate"}
    with pytest.raises(OSError, match="Input/output"):  # it cannot be mended yet
        log.append([b"lost too"])
    disk.broken = set()
    log.append([b"second"])
    log.close()
    assert [record.payload for record in read_log(log.folder)] == [*before, b"second"]
    assert segments_of(log.folder)[-1].first == len(before) + 1


@pytest.mark.parametrize("broken", [{"fdatasync"}, {"fdatasync", "ftruncate"}])
def test_an_event_whose_fsync_failed_is_not_there_after_a_restart(tmp_path, monkeypatch, broken):
    log, _ = opened(tmp_path / "log")
    log.append([b"first"])
    disk = Disk(monkeypatch)
    disk.broken = broken
    with pytest.raises(OSError, match="Input/output"):
        log.append([b"lost"])
    if broken == {"fdatasync"}:  # at once, as a process that is killed leaves it
        assert list(read_log(log.folder)) == [Record(1, b"first")]
    disk.broken = set()
    done = []
    monkeypatch.setattr(logs.os, "fsync", lambda file: done.append(os.fstat(file).st_size))
    log.close()
    assert done == [segments_of(log.folder)[0].path.stat().st_size]
    assert opened(tmp_path / "log")[1] == [Record(1, b"first")]


@pytest.mark.parametrize("target", [b"of somebody else", b"", None])
def test_a_link_in_the_log_is_refused_and_its_target_stays(tmp_path, target):
    written(tmp_path / "log", segment_bytes=100)
    somebody = tmp_path / "somebody"
    if target is not None:
        somebody.write_bytes(target)
    last = segments_of(tmp_path / "log")[-1]
    last.path.unlink()
    last.path.symlink_to(somebody)
    for use in (opened, lambda folder: list(read_log(folder))):
        with pytest.raises(LogError, match=rf"{last.path.name}: .* plain file"):
            use(tmp_path / "log")
    assert (somebody.read_bytes() if somebody.exists() else None) == target
    assert last.path.is_symlink()


def test_a_pipe_in_the_log_is_refused_unread(tmp_path):
    (tmp_path / "log").mkdir()
    os.mkfifo(tmp_path / "log" / f"{1:020d}.log")
    for use in (opened, lambda folder: list(read_log(folder))):
        with pytest.raises(LogError, match="plain file"):
            use(tmp_path / "log")


@pytest.mark.parametrize("content", [b"x", b"MMEVENTT", b"MMEVENTS\1\0\0\0\3", b"a,b\n1,2\n" * 99])
def test_a_file_that_is_no_beginning_of_a_log_is_never_truncated(tmp_path, content):
    folder = tmp_path / "log"
    folder.mkdir()
    path = folder / f"{1:020d}.log"
    path.write_bytes(content)
    with pytest.raises(LogError, match=f"{path.name}: it does not begin as a log"):
        opened(folder)
    assert path.read_bytes() == content
    path.unlink()
    log, _ = opened(folder, segment_bytes=30)
    log.append([b"first"])
    (folder / f"{2:020d}.log").write_bytes(content)
    with pytest.raises(FileExistsError):
        log.append([b"second"])
    (folder / f"{2:020d}.log").unlink()
    assert log.append([b"second"]) == 2
    log.close()


def test_only_files_of_the_log_are_dropped(tmp_path):
    log, _ = opened(tmp_path / "log", segment_bytes=30)
    for k in range(4):
        log.append([b"%d" % k])
    foreign = segments_of(log.folder)[0].path
    foreign.write_bytes(b"of somebody else")
    link = segments_of(log.folder)[1].path
    link.unlink()
    link.symlink_to(foreign)
    log.drop_until(3)
    assert foreign.read_bytes() == b"of somebody else"
    assert [segment.first for segment in segments_of(log.folder)] == [1, 2, 4]
    log.close()


def test_a_log_of_a_later_version_is_refused(tmp_path):
    written(tmp_path / "log", [])
    (segment,) = segments_of(tmp_path / "log")
    begin = HEADER.pack(logs.MAGIC, 2, 1, 0)[:-4]
    segment.path.write_bytes(begin + zlib.crc32(begin).to_bytes(4, "little"))
    with pytest.raises(LogError, match="version 2"):
        opened(tmp_path / "log")


def test_what_is_found_is_on_the_disk_before_it_is_used(tmp_path, monkeypatch):
    written(tmp_path / "log")
    done = []
    real = os.fsync
    monkeypatch.setattr(logs.os, "fsync", lambda file: done.append("fsync") or real(file))
    log = Log(tmp_path / "log")
    next(log.recover(0))
    assert done  # by a process that was killed, perhaps, before it could wait for the disk
