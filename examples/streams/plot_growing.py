"""
New columns and classes
=======================

Sensors monitor a machine. Later more sensors are added, and one day a new kind of fault occurs. The
learner continues: rows are dicts, new names get columns, and new labels become classes. The final
model is identical to one that knew all of them from the start.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import PassiveAggressive

# %%
# Events as they come. Vibration is measured from event 1000 on, and overheating, a new label, comes
# from event 2000 on.

random = np.random.default_rng(1)
ROWS, SENSOR, FAULT = 3000, 1000, 2000
CLASSES = ("fine", "worn", "overheating")
CENTRES = {
    "fine": {"speed": 0.0, "current": 0.0, "vibration": -2.0, "heat": -1.0},
    "worn": {"speed": 0.3, "current": 0.6, "vibration": 2.0, "heat": -1.0},
    "overheating": {"speed": 0.0, "current": 0.6, "vibration": 0.0, "heat": 3.0},
}


def event(i):
    label = random.choice(CLASSES if i >= FAULT else CLASSES[:2])
    row = {name: centre + random.normal(0.0, 0.8) for name, centre in CENTRES[label].items()}
    if i < SENSOR:
        del row["vibration"]
    return row, str(label)


events = [event(i) for i in range(ROWS)]

# %%
# One event at a time: predict, then learn. ``grow=True`` in the first call says that labels may be
# new; new names in dicts are welcome anyway.

clf = PassiveAggressive(C=0.1)
right = np.empty(ROWS, dtype=bool)
for i, (row, label) in enumerate(events):
    right[i] = clf.predict_one(row, grow=True) == label
    clf.learn_one(row, label, grow=True)
print(f"columns: {', '.join(clf.columns_)}")
print(f"classes: {', '.join(clf.classes_)}")

# %%
# The sensor helps at once. The new fault costs a few mistakes, as it must.

window = 100
slid = np.convolve(right, np.ones(window) / window, mode="valid")
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(np.arange(window, ROWS + 1), 100 * slid)
for at, what in ((SENSOR, "a new column: vibration"), (FAULT, "a new class: overheating")):
    ax.axvline(at, color="tab:red", linestyle=":")
    ax.annotate(what, (at, 52), (6, 0), textcoords="offset points", color="tab:red")
ax.set(xlabel="events", ylabel=f"right among the last {window}, %", ylim=(50, 101))
ax.grid(alpha=0.3)
plt.show()

before, between, behind = right[:SENSOR].mean(), right[SENSOR:FAULT].mean(), right[FAULT:].mean()
print(f"right before the sensor {100 * before:.1f} %, with it {100 * between:.1f} %")
print(f"right from the new class on {100 * behind:.1f} %")

# %%
# Now a learner that is told everything beforehand. It ends with the same weights, to the bit.

informed = PassiveAggressive(C=0.1)
for row, label in events:
    informed.learn_one({name: row.get(name, 0.0) for name in clf.columns_}, label, classes=CLASSES)
same = np.array_equal(informed.coef_, clf.coef_)
print(f"the same weights: {same}")
