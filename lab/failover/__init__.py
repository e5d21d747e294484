"""Primaries are destroyed, and the standby is promoted: `make failover`."""
