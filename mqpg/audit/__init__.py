"""What both engines of `mqpg audit` share: the options, the report, the verdict and the page.

The engines derive and judge by themselves, with code of their own. Nothing here needs Spark or
Java.
"""
