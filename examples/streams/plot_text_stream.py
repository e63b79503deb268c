"""
Text without a vocabulary
=========================

Messages arrive one by one with a label, and new words appear. A :class:`~maxmargin.streams.Recipe`
hashes words, so no vocabulary is needed, and the learner accepts raw text. The plots show how a
change in the words of spammers causes some mistakes and is then learned, and which words matter.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from maxmargin import PassiveAggressive, streams
from maxmargin.evaluate import progressive

# %%
# Messages of made-up mail. After half of the stream, spam changes its words.

HAM = "meeting tomorrow lunch report thanks project train dinner holiday draft budget family"
SPAM_ONCE = "winner lottery million urgent transfer claim prize cheap pills casino"
SPAM_LATER = "crypto token wallet airdrop doubling presale influencer giveaway coin staking"
COMMON = "the a we you please see attached about for with today new best regards hello time offer"

random = np.random.default_rng(0)
ROWS = 2000


def message(spam, later):
    own = (SPAM_LATER if later else SPAM_ONCE) if spam else HAM
    words = [*random.choice(own.split(), random.integers(1, 4))]
    words += [*random.choice(COMMON.split(), random.integers(4, 9))]
    return " ".join(random.permutation(words))


labels = random.uniform(size=ROWS) < 0.4
events = [
    ({"text": message(spam, later=i >= ROWS // 2)}, "spam" if spam else "ham")
    for i, spam in enumerate(labels)
]
for event, label in events[:2] + events[-2:]:
    print(f"{label:5}{event['text']}")

# %%
# Predict, then learn, event by event.

rows = streams.open(events, recipe=streams.Recipe({"text": "text"}))
result = progressive(PassiveAggressive(C=1.0), rows, classes=["ham", "spam"], step=20)
before, after = result.wrong[: ROWS // 2], result.wrong[ROWS // 2 :]
print(f"{before.sum()} mistakes before the change, {after.sum()} after it")
print(f"in the 100 rows before the change {before[-100:].sum()}, behind it {after[:100].sum()}")

fig, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.plot(result.trials, 100 * result.recent_accuracy(100))
ax.axvline(ROWS // 2, color="tab:red", linestyle=":")
ax.annotate("new words", (ROWS // 2, 62), (8, 0), textcoords="offset points", color="tab:red")
ax.set(xlabel="messages", ylabel="right among the last 100, %", ylim=(60, 101))
ax.grid(alpha=0.3)
plt.show()

# %%
# A learner that keeps its recipe takes raw text. A hash cannot be undone, but any word can be asked
# about: what does a message of this word alone score?

clf = PassiveAggressive(C=1.0).fit_stream(rows)
words = np.unique(f"{HAM} {SPAM_ONCE} {SPAM_LATER} {COMMON}".split())
scores = clf.decision_function(pd.DataFrame({"text": words}))
order = np.argsort(scores)
kinds = {HAM: "tab:blue", SPAM_ONCE: "tab:orange", SPAM_LATER: "tab:red", COMMON: "0.6"}
names = ("ham", "spam, first half", "spam, second half", "common words")

fig, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
for (kind, color), name in zip(kinds.items(), names, strict=True):
    chosen = np.isin(words[order], kind.split())
    ax.bar(np.arange(words.size)[chosen], scores[order][chosen], color=color, label=name)
ax.set_xticks(np.arange(words.size), words[order], rotation=90, fontsize="small")
ax.set(ylabel="score (above 0: spam)", xlim=(-1, words.size))
ax.axhline(0.0, color="0.3", linewidth=0.8)
ax.legend(frameon=False, loc="upper left")
plt.show()
