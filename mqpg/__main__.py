"""`python -m mqpg`: the command `mqpg`."""

from mqpg.cli import main

if __name__ == "__main__":
    main()
