"""How the library reaches a server: settings, DSNs, sessions, time limits, notifications."""
