"""Tasks that need no download: generated ones, real text of this Python, small programs. Others are optional."""
