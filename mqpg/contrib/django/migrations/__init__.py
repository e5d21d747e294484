"""The one migration: what the setting MQPG names. Later releases upgrade it after each `manage.py migrate`."""
