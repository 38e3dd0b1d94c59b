"""Attacks on approvals, each really carried out at one of Lathe's doors. See README.md."""
