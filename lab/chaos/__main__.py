"""`python -m lab.chaos`."""

from mqpg.cli import main

from .cli import app

if __name__ == "__main__":
    main(app)
