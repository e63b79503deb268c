"""Limits that keep clients from filling the memory or the disk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a service.

    Attributes
    ----------
    connections : at a time; more than the system lets a process open would keep its files shut
    header_seconds : until all headers of a request are there, from the start of the connection or
        the last answer
    header_bytes : headers and trailers of a request
    body_bytes, body_seconds : of a request
    received_bytes : of all bodies that come in several parts, until their requests are answered
    answer_bytes : of the scores and probabilities in an answer, about
    write_seconds : until a client has read an answer that is too large for the system's buffers
    unread_bytes : of all such answers that wait to be read; the connections that have waited
        longest are closed
    rows : in a request
    values, table_bytes : of a table in Arrow, in all columns, once it is decoded
    columns : of a model that gets them by names, or by its first row
    classes : of a model
    id_length : of an event's id, in characters
    known_ids : the last ones, which are recognised when they come again
    waiting, waiting_bytes, waiting_seconds : predictions that wait for their labels; the oldest go
    queue, queue_bytes : requests that wait to be written to the disk
    listeners : of server-sent events
    shadows : of a model
    budget : of a shadow, in rows
    numbers : in the learners of a model and its shadows together: columns times classes for each,
        or for one with a budget, budget times (budget + columns) times classes. A learner that gets
        more columns needs about 100 bytes of memory for each number in that moment
    snapshot_seconds, snapshot_bytes, snapshot_events : a snapshot is due after that time,
        so many bytes of the log, or so many events
    segment_bytes : of a file of the log
    """

    connections: int = 500
    header_seconds: float = 30.0
    header_bytes: int = 2**16
    body_bytes: int = 2**25
    body_seconds: float = 30.0
    received_bytes: int = 2**27
    answer_bytes: int = 2**25
    write_seconds: float = 30.0
    unread_bytes: int = 2**27
    rows: int = 100_000
    values: int = 2**23
    table_bytes: int = 2**27
    columns: int = 2**20
    classes: int = 1000
    id_length: int = 128
    known_ids: int = 100_000
    waiting: int = 100_000
    waiting_bytes: int = 2**26
    waiting_seconds: float = 7 * 24 * 3600.0
    queue: int = 2048
    queue_bytes: int = 2**27
    listeners: int = 32
    shadows: int = 8
    budget: int = 2**16
    numbers: int = 2**25
    snapshot_seconds: float = 60.0
    snapshot_bytes: int = 2**28
    snapshot_events: int = 10**7
    segment_bytes: int = 2**26
