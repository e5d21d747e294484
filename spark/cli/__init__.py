"""The commands `mqpg audit` and `mqpg reconcile`, and the page that the audit prints."""
