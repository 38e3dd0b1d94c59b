"""The tools of `agents.tools` for any client of the Model Context Protocol. Needs the extra `mcp`.

server  the tools as an MCP server, under the role of whoever asks
ways    how it is reached: standard input and output, or streamable HTTP with Bearer tokens
"""

from agents.mcp_server.server import Caller, McpTools
from agents.mcp_server.ways import caller_of, http_app, serve_stdio

__all__ = ["Caller", "McpTools", "caller_of", "http_app", "serve_stdio"]
