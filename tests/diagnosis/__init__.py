"""Ten things that are broken on purpose, and what names them."""
