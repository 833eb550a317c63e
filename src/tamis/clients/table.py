"""The agents that tamis can be installed into: which file each reads, and what an entry looks like.

The facts, with their sources, are in docs/agents.md. Paths are those of Linux and macOS.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Scope = Literal["project", "user"]
SKILL = "tamis/SKILL.md"  # a skill has a folder of its own name


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that decides where a user's files are."""

    home: Path
    platform: str  # as sys.platform
    environment: Mapping[str, str]

    def named(self, variable: str, default: Path) -> Path:
        """Return the folder that a variable names; XDG says to ignore relative ones."""
        value = self.environment.get(variable, "")
        if value.startswith("/"):
            return Path(value)
        return default

    def find(self, path: str) -> Path:
        """Fill in the folder that a path of the table begins with: `{codex}/config.toml`."""
        home = self.home
        config = self.named("XDG_CONFIG_HOME", home / ".config")
        applications = config  # desktop programs of the Electron family
        zed = self.named("FLATPAK_XDG_CONFIG_HOME", config)
        if self.platform == "darwin":
            applications = home / "Library" / "Application Support"
            zed = home / ".config"
        filled = path.format(
            home=home,
            applications=applications,
            zed=zed,
            claude=self.named("CLAUDE_CONFIG_DIR", home / ".claude"),
            # Beside ~/.claude, but inside the folder that the variable names.
            claude_state=self.named("CLAUDE_CONFIG_DIR", home),
            codex=self.named("CODEX_HOME", home / ".codex"),
            gemini=self.named("GEMINI_CLI_HOME", home),
        )
        return Path(filled)


@dataclass(frozen=True, slots=True)
class Client:
    """An agent and the files it reads. User paths are for `Machine.find`."""

    name: str
    title: str
    group: str  # the table of servers in its file
    user: str
    project: str = ""  # relative to the project; empty if it knows no projects
    extra: tuple[tuple[str, str], ...] = ()  # in an entry besides command and args
    skills: str = "{home}/.agents/skills"  # empty if it reads no skills
    project_skills: str = ".agents/skills"
    next: str = ""  # what is left for the user to do

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Scopes with a file of their own. The first is the default."""
        if self.project:
            return ("project", "user")
        return ("user",)

    def file(
        self,
        scope: Scope,
        machine: Machine,
        project: Path,
    ) -> Path:
        """Return the configuration file of a scope."""
        if scope == "project":
            return project / self.project
        return machine.find(self.user)

    def skill_file(
        self,
        scope: Scope,
        machine: Machine,
        project: Path,
    ) -> Path | None:
        """Return the place of our skill, or None if the client reads no skills."""
        if not self.skills:
            return None
        if scope == "project":
            return project / self.project_skills / SKILL
        return machine.find(self.skills) / SKILL


_CLIENTS = (
    Client(
        "claude-code",
        "Claude Code",
        "mcpServers",
        "{claude_state}/.claude.json",
        ".mcp.json",
        extra=(("type", "stdio"),),
        skills="{claude}/skills",
        project_skills=".claude/skills",
        next="start a new session; /mcp shows the server and asks for approval once",
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        "mcpServers",
        "{applications}/Claude/claude_desktop_config.json",
        skills="",
        next="quit Claude Desktop and start it again",
    ),
    Client(
        "cursor",
        "Cursor",
        "mcpServers",
        "{home}/.cursor/mcp.json",
        ".cursor/mcp.json",
        next="switch the server on in Cursor's settings, under MCP",
    ),
    Client(
        "vscode",
        "VS Code",
        "servers",
        "{applications}/Code/User/mcp.json",
        ".vscode/mcp.json",
        extra=(("type", "stdio"),),
        next="run 'MCP: List Servers' in VS Code, and start and trust the server there",
    ),
    Client(
        "codex",
        "Codex",
        "mcp_servers",
        "{codex}/config.toml",
        ".codex/config.toml",
        next="start a new session; a project's file counts once Codex trusts the project",
    ),
    Client(
        "gemini",
        "Gemini CLI",
        "mcpServers",
        "{gemini}/.gemini/settings.json",
        ".gemini/settings.json",
        next="start a new session; /mcp shows the server",
    ),
    Client(
        "zed",
        "Zed",
        "context_servers",
        "{zed}/zed/settings.json",
        ".zed/settings.json",
        next="Zed starts the server; a project's file counts once the project is trusted",
    ),
)
CLIENTS = {client.name: client for client in _CLIENTS}
