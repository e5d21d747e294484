"""What both engines of `mqpg audit` share: the options, the report, the verdict and the page.

What they derive and judge is the SQL in sql/, which each runs in its own dialect. Nothing here needs
Spark or Java.
"""
