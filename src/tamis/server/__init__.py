"""The servers: MCP for agents, HTTP and the page for people."""
