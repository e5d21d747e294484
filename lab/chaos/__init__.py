"""Ten nodes that are killed in many rounds, all protocols side by side, and the proof in the end.

`python -m lab.chaos` runs it. The nodes are four `producer` processes, four `consumer` processes, and two
brokers (`cluster`). `schedule` plans the rounds, `strikes` carries them out, `motion` measures the
recovery, `judge` compares ids as sets, `audits` runs `mqpg audit`, and `run` holds it together.
"""
