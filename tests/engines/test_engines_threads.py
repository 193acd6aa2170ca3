"""Libraries that are loaded by the first question, whoever asks it."""

from __future__ import annotations

import subprocess
import sys

# Threads take turns as often as they can. Without one lock for all imports about half of the runs fail.
FIRST_QUESTIONS = """
import sys, threading
from holdfast import Guard

guard = Guard({"x": [number / 900 for number in range(900)]})
assert "ibis" not in sys.modules and "sqlglot" not in sys.modules
sys.setswitchinterval(1e-6)
together, answers = threading.Barrier(8), []

def ask(number):
    together.wait()
    answers.append(guard.share(f"x > {number / 10}").value)

threads = [threading.Thread(target=ask, args=[number]) for number in range(1, 9)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(answers))
"""


def test_threads_can_ask_the_first_question_at_the_same_time():
    for _ in range(6):
        run = subprocess.run([sys.executable, "-c", FIRST_QUESTIONS], capture_output=True, text=True)
        assert (run.returncode, run.stdout, run.stderr) == (0, "8\n", "")
