"""Agents that start tamis as their MCP server: where their configuration is, and how it is changed."""
