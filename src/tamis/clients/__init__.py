"""Agents that start tamis as their MCP server, and changes to their configuration."""
