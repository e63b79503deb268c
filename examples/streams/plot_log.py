"""
From a log such as Kafka's, killed and resumed
==============================================

A consumer polls messages from the partitions of a log. Its *offsets*, the position in each
partition, belong in the same file as the model, written atomically: then no message is learned
twice or lost, whenever the process dies. Here one process is killed, and another continues to
exactly the model of an uninterrupted run.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import PassiveAggressive, streams
from maxmargin.datasets import make_switching

# %%
# A log in memory, with a consumer that behaves as Kafka's does: ``poll`` gives some messages of
# some partitions, in an unspecified order, and ``seek`` goes to an offset.

TOPIC, PARTITIONS, MESSAGES = "readings", 3, 6000


def messages():
    random = np.random.default_rng(0)
    log = {partition: [] for partition in range(PARTITIONS)}
    for x, label in zip(*make_switching(MESSAGES, random_state=0), strict=True):
        value = json.dumps({"x": x.tolist(), "label": int(label)}).encode()
        log[int(random.choice(PARTITIONS, p=[0.5, 0.3, 0.2]))].append(value)
    return log


class Consumer:
    def __init__(self, log, seed, dies_after=None):
        self.log, self.random, self.polls_left = log, np.random.default_rng(seed), dies_after
        self.positions, self.sought = dict.fromkeys(log, 0), {}

    def seek(self, partition, offset):
        self.positions[partition] = self.sought[partition] = offset

    def poll(self, max_records=200):
        if self.polls_left is not None:
            self.polls_left -= 1
            if self.polls_left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        found = {}
        for partition in self.random.permutation(list(self.log)).tolist():
            begin = self.positions[partition]
            count = int(self.random.integers(1, max_records))
            if values := self.log[partition][begin : begin + count]:
                found[partition] = list(enumerate(values, begin))  # offset and value
                self.positions[partition] = begin + len(values)
        return found


# %%
# A source of rows over it. Which message comes next depends on the offsets alone: the partition
# that is the farthest behind has its turn. Blocks of messages become blocks of rows by the source
# that `streams.open` makes of any iterator.
#
# What `schema` says is stored with each checkpoint; ``reach`` is told of each block that has been
# learned from, and `restore` is called before a run goes on. With Kafka itself, switch off its own
# commits (``enable.auto.commit``), and write the cluster and the topic into ``identity``.


class LogSource(streams.Source):
    repeatable = False
    BLOCK = 100

    def __init__(self, consumer, partitions):
        self.name, self.consumer = f"<{TOPIC}>", consumer
        self.offsets = dict.fromkeys(partitions, 0)  # behind all that was learned from
        self.go_to_offsets()

    def go_to_offsets(self):
        for partition, offset in self.offsets.items():
            self.consumer.seek(partition, offset)
        self.behind = {}  # the offsets behind so many rows
        self.rows = streams.open(self.pairs())

    def pairs(self):
        """Blocks (X, y) of messages."""
        next_offsets = dict(self.offsets)
        waiting = {partition: deque() for partition in next_offsets}
        rows = 0
        while True:
            block = []
            while len(block) < self.BLOCK and self.fill(waiting, next_offsets):
                ready = [partition for partition in waiting if waiting[partition]]
                turn = min(ready, key=lambda partition: (next_offsets[partition], partition))
                offset, value = waiting[turn].popleft()
                next_offsets[turn] = offset + 1
                block.append(json.loads(value))
            if not block:
                return
            rows += len(block)
            self.behind[rows] = dict(next_offsets)
            yield [one["x"] for one in block], [one["label"] for one in block]

    def fill(self, waiting, next_offsets):
        """Poll until there is a message of each partition, but those at their ends."""
        polled = True
        while polled and not all(waiting.values()):
            polled = self.consumer.poll()
            for partition, found in polled.items():
                waiting[partition].extend(found)
        return any(waiting.values())

    def survey(self):
        return self.rows.survey()

    def blocks(self, start=0):
        for block in self.rows.blocks():
            end = start + block.end
            self.behind[end] = self.behind.pop(block.end)
            yield block._replace(end=end)

    def reach(self, block):
        self.offsets = self.behind.get(block.end, self.offsets)

    def schema(self):
        return {"format": "log", "offsets": {str(p): at for p, at in self.offsets.items()}}

    def restore(self, schema):
        self.offsets = {int(partition): at for partition, at in schema["offsets"].items()}
        self.go_to_offsets()

    def identity(self):
        return TOPIC


def learn(consumer, checkpoint=None):
    clf, source = PassiveAggressive(C=1.0), LogSource(consumer, consumer.log)
    clf.fit_stream(source, classes=[-1, 1], checkpoint=checkpoint, every=300)
    return clf


# %%
# Another process learns, and is killed in the middle of it by SIGKILL, which nothing can catch.

if __name__ == "the one that dies":
    learn(Consumer(messages(), seed=1, dies_after=12), sys.argv[1])

folder = tempfile.TemporaryDirectory()
checkpoint = Path(folder.name) / "log.ckpt"
this_file = learn.__code__.co_filename
program = f"import runpy; runpy.run_path({this_file!r}, run_name='the one that dies')"
died = subprocess.run([sys.executable, "-c", program, str(checkpoint)], check=False)
print("killed by", signal.Signals(-died.returncode).name)

# %%
# This process goes on from its checkpoint, with a consumer of its own that polls in another order.

log = messages()
consumer = Consumer(log, seed=2)
clf = learn(consumer, checkpoint)
print("went on from the offsets", consumer.sought)

whole = learn(Consumer(log, seed=3))
same = np.array_equal(clf.coef_, whole.coef_) and np.array_equal(clf.intercept_, whole.intercept_)
print(f"{clf.n_mistakes_} mistakes, {whole.n_mistakes_} without a crash; the same model: {same}")

# %%
# What the first process learned, and what the second did.

ends = np.array([len(log[partition]) for partition in log])
begun = np.array([consumer.sought[partition] for partition in log])
fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
ax.barh(range(PARTITIONS), begun, label="before it was killed")
ax.barh(range(PARTITIONS), ends - begun, left=begun, label="by the one that went on")
ax.set(xlabel="offset", ylabel="partition", yticks=range(PARTITIONS))
ax.legend()
plt.show()
folder.cleanup()
