"""``python docs/pictures``: draw the pictures of the README anew."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from pictures import OF_THE_README, draw  # noqa: E402 - found by the line above

draw(HERE / "readme", OF_THE_README)
