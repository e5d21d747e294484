"""Ten nodes that are killed in many rounds, all protocols side by side, and the proof in the end.

`python -m lab.chaos` runs it. The nodes are four `producer` processes, four `consumer` processes, and
two brokers (`cluster`, `nodes`). `schedule` plans the rounds, `faults` carries them out, `progress`
measures the recovery, `judge` compares ids as sets, and `run` holds it together.
"""
