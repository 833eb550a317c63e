"""The agents that tamis can be installed into: which file each reads, and what an entry looks like.

The facts, with where they come from, are in docs/agents.md. Paths are of Linux and macOS.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Scope = Literal["project", "user"]
SKILL: Final = "tamis/SKILL.md"  # in a folder of skills, each has a folder of its name


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides where a user's files are."""

    home: Path
    platform: str  # as sys.platform
    environment: Mapping[str, str]

    def named(self, variable: str, default: Path) -> Path:
        """The folder that a variable names. A relative one is ignored, as XDG asks for: relative to what?"""
        value = self.environment.get(variable, "")
        return Path(value) if value.startswith("/") else default

    @property
    def config(self) -> Path:
        """Where programs keep their settings."""
        return self.named("XDG_CONFIG_HOME", self.home / ".config")

    @property
    def applications(self) -> Path:
        """Where desktop programs of the Electron family keep theirs."""
        mac = self.platform == "darwin"
        return self.home / "Library" / "Application Support" if mac else self.config


@dataclass(frozen=True, slots=True)
class Client:
    """An agent, and where it reads what."""

    name: str
    title: str
    group: str  # the table of servers in its file
    user: Callable[[Machine], Path]
    project: str = ""  # relative to the project; empty: it has none
    extra: tuple[
        tuple[str, str], ...
    ] = ()  # what an entry has besides command and args
    skills: Callable[[Machine], Path] | None = lambda machine: (
        machine.home / ".agents" / "skills"
    )
    project_skills: str = ".agents/skills"
    next: str = ""  # what is left for the user to do

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The first is the default: a server that is of a project searches that project, not another."""
        return ("project", "user") if self.project else ("user",)

    def file(self, scope: Scope, machine: Machine, project: Path) -> Path:
        return project / self.project if scope == "project" else self.user(machine)

    def skill_file(self, scope: Scope, machine: Machine, project: Path) -> Path | None:
        if self.skills is None:
            return None
        return (
            project / self.project_skills
            if scope == "project"
            else self.skills(machine)
        ) / SKILL


def _claude(machine: Machine) -> Path:
    return machine.named("CLAUDE_CONFIG_DIR", machine.home / ".claude")


def _claude_state(machine: Machine) -> Path:
    """Beside ~/.claude, but inside the folder that CLAUDE_CONFIG_DIR names."""
    return machine.named("CLAUDE_CONFIG_DIR", machine.home) / ".claude.json"


def _zed(machine: Machine) -> Path:
    """Zed does not ask for XDG_CONFIG_HOME on macOS; in a Flatpak, its own variable counts."""
    linux = machine.named("FLATPAK_XDG_CONFIG_HOME", machine.config)
    return (
        (machine.home / ".config" if machine.platform == "darwin" else linux)
        / "zed"
        / "settings.json"
    )


CLIENTS: Final = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            "mcpServers",
            _claude_state,
            ".mcp.json",
            extra=(("type", "stdio"),),
            skills=lambda machine: _claude(machine) / "skills",
            project_skills=".claude/skills",
            next="start a new session; /mcp shows the server and asks for approval once",
        ),
        Client(
            "claude-desktop",
            "Claude Desktop",
            "mcpServers",
            lambda machine: (
                machine.applications / "Claude" / "claude_desktop_config.json"
            ),
            skills=None,
            next="quit Claude Desktop and start it again",
        ),
        Client(
            "cursor",
            "Cursor",
            "mcpServers",
            lambda machine: machine.home / ".cursor" / "mcp.json",
            ".cursor/mcp.json",
            next="switch the server on in Cursor's settings, under MCP",
        ),
        Client(
            "vscode",
            "VS Code",
            "servers",
            lambda machine: machine.applications / "Code" / "User" / "mcp.json",
            ".vscode/mcp.json",
            extra=(("type", "stdio"),),
            next="run 'MCP: List Servers' in VS Code, and start and trust the server there",
        ),
        Client(
            "codex",
            "Codex",
            "mcp_servers",
            lambda machine: (
                machine.named("CODEX_HOME", machine.home / ".codex") / "config.toml"
            ),
            ".codex/config.toml",
            next="start a new session; a project's file counts once Codex trusts the project",
        ),
        Client(
            "gemini",
            "Gemini CLI",
            "mcpServers",
            lambda machine: (
                machine.named("GEMINI_CLI_HOME", machine.home)
                / ".gemini"
                / "settings.json"
            ),
            ".gemini/settings.json",
            next="start a new session; /mcp shows the server",
        ),
        Client(
            "zed",
            "Zed",
            "context_servers",
            _zed,
            ".zed/settings.json",
            next="Zed starts the server by itself; a project's file counts once the project is trusted",
        ),
    )
}
